#include "launch/runtime/mpi_link.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "coordinator/hash64.h"
#include "coordinator/mpi_object.h"
#include "core/beside.h"
#include "core/runtime.h"

namespace tdump::launch {
namespace {

constexpr int kFileMode = 0600;
constexpr int kSerialized = 2;  // MPI_THREAD_SERIALIZED in every MPI
constexpr uint64_t kMaxBytes = 64;
constexpr const char* kEverybody = "all\n";

std::string Stem(const std::string& clock_directory, const Identity& identity) {
  return JoinPath(clock_directory,
                  fmt::format("mpi_{:016x}", coordinator::Hash64(identity.job_key)));
}

std::string Announcement(const std::string& stem, int32_t rank) {
  return fmt::format("{}_{}", stem, rank);
}

Status WriteNew(Env* env, const std::string& path, const std::string& text) {
  TDUMP_ASSIGN_OR_RETURN(auto file, env->CreateExclusive(path, kFileMode));
  TDUMP_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(text))));
  return file->Close();
}

std::string Missing(Env* env, const std::string& stem, int32_t world) {
  for (int32_t rank = 0; rank < world; ++rank) {
    const auto level = ReadFile(env, Announcement(stem, rank), kMaxBytes);
    if (!level.ok()) return fmt::format("rank {} runs outside tdump\n", rank);
    if (*level == std::to_string(kSerialized))
      return fmt::format("rank {} asked for MPI_THREAD_SERIALIZED\n", rank);
  }
  return kEverybody;
}

// Written under another name first: whoever finds the finding finds all of it.
Result<std::string> Finding(Env* env, const std::string& stem, const Identity& identity) {
  const std::string path = stem + "_finding";
  TDUMP_RETURN_IF_ERROR(env->WithLock(stem + "_lock", 2000, [&]() -> Status {
    if (env->Stat(path).ok()) return {};
    return WriteFileAtomically(env, path, Missing(env, stem, identity.world), kFileMode);
  }));
  return ReadFile(env, path, kMaxBytes);
}

int FindMpi(dl_phdr_info* info, size_t, void* found) {
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* file = slash != nullptr ? slash + 1 : info->dlpi_name;
  if (std::strncmp(file, TDUMP_MPI_SONAME, std::strlen(TDUMP_MPI_SONAME)) != 0) return 0;
  *static_cast<bool*>(found) = true;
  return 1;
}

// libtdump_mpi.so beside this object, for the MPI that the process has; else why not.
Result<void*> OpenObject() {
  bool mapped = false;
  dl_iterate_phdr(FindMpi, &mapped);
  if (!mapped) return NotFound("the job's MPI is not " TDUMP_MPI_SONAME);
  TDUMP_ASSIGN_OR_RETURN(const std::string object,
                         PathBeside(reinterpret_cast<void*>(&OpenMpiWorld), "libtdump_mpi.so"));
  void* handle = ::dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return NotFound(fmt::format("no MPI transport: {}", why != nullptr ? why : object.c_str()));
  }
  const auto stamp = reinterpret_cast<coordinator::MpiStampFn>(::dlsym(handle, "tdump_mpi_stamp"));
  if (stamp == nullptr || stamp() != kBuildStamp)
    return Unsupported("the MPI transport is of another build of tdump");
  return handle;
}

}  // namespace

Status AnnounceMpi(Env* env, const std::string& clock_directory, const Identity& identity,
                   int thread_level) {
  TDUMP_RETURN_IF_ERROR(env->MakeDirs(clock_directory, 0700));
  return WriteNew(env, Announcement(Stem(clock_directory, identity), identity.rank),
                  std::to_string(thread_level));
}

Result<std::string> WhyNotMpi(Env* env, const std::string& clock_directory,
                              const Identity& identity) {
  TDUMP_ASSIGN_OR_RETURN(std::string finding,
                         Finding(env, Stem(clock_directory, identity), identity));
  if (finding == kEverybody) return std::string();
  if (finding.ends_with('\n')) finding.pop_back();
  return finding;
}

MpiWorld OpenMpiWorld(Env* env, const std::string& clock_directory, const Identity& identity) {
  MpiWorld world;
  const auto object = OpenObject();
  if (!object.ok()) {
    world.why_not = object.status().message();
    return world;
  }
  const auto ask = reinterpret_cast<coordinator::MpiWorldFn>(::dlsym(*object, "tdump_mpi_world"));
  const auto open =
      reinterpret_cast<coordinator::MpiTransportFn>(::dlsym(*object, "tdump_mpi_transport"));
  if (ask == nullptr || open == nullptr) return world;
  ask(&world.rank, &world.world);
  if (world.world <= 1) return world;
  const auto against = WhyNotMpi(env, clock_directory, identity);
  if (!against.ok())
    world.why_not = against.status().message();
  else if (!against->empty())
    world.why_not = *against;
  else if (world.world != identity.world)
    world.why_not = fmt::format("MPI has {} ranks, the launcher {}", world.world, identity.world);
  else
    world.transport.reset(open(coordinator::kMpiFanOut));
  return world;
}

}  // namespace tdump::launch
