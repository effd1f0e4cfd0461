/* Preloaded: the first write of each thread named tdump-writer* takes a second, or until the file
 * is there that SLOW_WRITER_UNTIL names, and says so. What a job does with its tensors in the
 * meantime is then done before any of them is written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static __thread int delayed;

static void delay(void) {
  static const char kText[] = "slow_writer: a writer waits\n";
  char name[16] = "";
  if (delayed) return;
  if (prctl(PR_GET_NAME, name) != 0 || strncmp(name, "tdump-writer", 12) != 0) return;
  delayed = 1;
  ssize_t (*write_now)(int, const void*, size_t) = dlsym(RTLD_NEXT, "write");
  if (write_now(2, kText, sizeof kText - 1) < 0) return;
  const char* file = getenv("SLOW_WRITER_UNTIL");
  const struct timespec second = {1, 0}, soon = {0, 10000000};
  if (file == NULL) nanosleep(&second, NULL);
  while (file != NULL && access(file, F_OK) != 0) nanosleep(&soon, NULL);
}

#define DELAYED(function, parameters, arguments)             \
  ssize_t function parameters {                              \
    delay();                                                 \
    ssize_t(*next) parameters = dlsym(RTLD_NEXT, #function); \
    return next arguments;                                   \
  }

DELAYED(write, (int file, const void* data, size_t count), (file, data, count))
DELAYED(pwrite, (int file, const void* data, size_t count, off_t offset),
        (file, data, count, offset))
DELAYED(pwrite64, (int file, const void* data, size_t count, off64_t offset),
        (file, data, count, offset))
DELAYED(writev, (int file, const struct iovec* pieces, int count), (file, pieces, count))
DELAYED(pwritev, (int file, const struct iovec* pieces, int count, off_t offset),
        (file, pieces, count, offset))
DELAYED(pwritev64, (int file, const struct iovec* pieces, int count, off64_t offset),
        (file, pieces, count, offset))
