// A member of a node file, open as a file. What Env says of files holds; positions beyond the room
// that a member has are made room for, under the lock of the node file.
#pragma once

#include <memory>
#include <string>

#include "core/env.h"
#include "io/node_file.h"

namespace tdump::io {

Result<std::unique_ptr<WritableFile>> CreateMember(const NodeWriter& writer,
                                                   const std::string& name);
// An existing one.
Result<std::unique_ptr<WritableFile>> OpenMember(const NodeWriter& writer,
                                                 const NodeMember& member);
// `shown`: the path that messages name.
Result<std::unique_ptr<ReadableFile>> ReadMember(Env* env, const std::string& node_file,
                                                 const NodeMember& member, std::string shown);

}  // namespace tdump::io
