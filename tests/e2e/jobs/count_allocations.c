/* Preloaded: counts the allocations of a thread and the texts it formats (printf into memory,
 * std::to_chars of a floating-point number), and among them those that tdump asks for: where a
 * frame of the call stack lies in one of its objects. A forward of LibTorch runs inside the shim's,
 * so of the shim only what it asks for itself counts. A job calls counting_begin() and
 * counting_end() through ctypes or dlsym. The stacks of the first few that are tdump's go to
 * stderr. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRanges = 64, kFrames = 48, kShown = 5, kNear = 4 };

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

static struct {
  uintptr_t begin, end;
  int farthest;
} ranges[kRanges];
static int range_count;
static __thread int counting, inside;
struct tally {
  const char* what;
  long all, ours;
};
static __thread struct tally allocations = {"an allocation", 0, 0};
static __thread struct tally texts = {"a text", 0, 0};

/* Where tdump's code is mapped. Returns the number of mappings. */
static int find_tdump(void) {
  char line[4096];
  FILE* maps = fopen("/proc/self/maps", "r");
  range_count = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin, end;
    char rights[5];
    if (strstr(line, "/libtdump") == NULL && strstr(line, "/tdump/_torch") == NULL) continue;
    if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) != 3 || rights[2] != 'x') continue;
    if (range_count == kRanges) break;
    ranges[range_count].begin = begin;
    ranges[range_count].farthest = strstr(line, "/libtdump_shim") != NULL ? kNear : kFrames;
    ranges[range_count++].end = end;
  }
  if (maps != NULL) fclose(maps);
  return range_count;
}

static void count(struct tally* tally) {
  void* frames[kFrames];
  if (!counting || inside) return;
  inside = 1;
  ++tally->all;
  const int depth = backtrace(frames, kFrames);
  int found = 0;
  for (int i = 0; i < depth && !found; ++i) {
    for (int k = 0; k < range_count && !found; ++k)
      found = i < ranges[k].farthest && (uintptr_t)frames[i] >= ranges[k].begin &&
              (uintptr_t)frames[i] < ranges[k].end;
  }
  if (found && ++tally->ours <= kShown) {
    fputs(tally->what, stderr);
    fputs(" of tdump's:\n", stderr);
    fflush(stderr);
    backtrace_symbols_fd(frames, depth < 16 ? depth : 16, 2);
  }
  inside = 0;
}

int counting_begin(void) {
  void* frames[4];
  backtrace(frames, 4); /* loads the unwinder */
  const int mappings = find_tdump();
  allocations.all = allocations.ours = texts.all = texts.ours = 0;
  counting = 1;
  return mappings;
}
/* Allocations, tdump's among them; texts, tdump's among them. */
void counting_end(long counts[4]) {
  counting = 0;
  counts[0] = allocations.all;
  counts[1] = allocations.ours;
  counts[2] = texts.all;
  counts[3] = texts.ours;
}

void* malloc(size_t bytes) {
  count(&allocations);
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) {
  count(&allocations);
  return __libc_calloc(number, bytes);
}
void* realloc(void* old, size_t bytes) {
  count(&allocations);
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count(&allocations);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** place, size_t alignment, size_t bytes) {
  count(&allocations);
  void* block = __libc_memalign(alignment, bytes);
  if (block == NULL) return ENOMEM;
  *place = block;
  return 0;
}

int snprintf(char* text, size_t bytes, const char* format, ...) {
  va_list arguments;
  count(&texts);
  va_start(arguments, format);
  const int length = vsnprintf(text, bytes, format, arguments);
  va_end(arguments);
  return length;
}

/* std::to_chars_result to_chars(char*, char*, double), and with a chars_format */
typedef struct {
  char* end;
  int error;
} written;
written to_chars_shortest(char*, char*, double) __asm__("_ZSt8to_charsPcS_d");
written to_chars_as(char*, char*, double, int) __asm__("_ZSt8to_charsPcS_dSt12chars_format");

written to_chars_shortest(char* begin, char* end, double value) {
  static written (*next)(char*, char*, double);
  count(&texts);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "_ZSt8to_charsPcS_d");
  return next(begin, end, value);
}
written to_chars_as(char* begin, char* end, double value, int format) {
  static written (*next)(char*, char*, double, int);
  count(&texts);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "_ZSt8to_charsPcS_dSt12chars_format");
  return next(begin, end, value, format);
}
