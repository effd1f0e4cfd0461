#include "launch/config/first_on_node.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <functional>

namespace tdump::launch {

// An abstract socket: it has no file, and goes with the process. Its name has room for 107 bytes.
Claim ClaimOnNode(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string bound = "tdump-" + std::to_string(std::hash<std::string>{}(name));
  std::memcpy(address.sun_path + 1, bound.data(), bound.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Claim::kNone;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bound.size());
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0) return Claim::kMine;
  ::close(fd);
  return Claim::kTaken;
}

}  // namespace tdump::launch
