// Shows the members of node files (io/node_file.h) as what they stand for: RUN/rank0_pid7 is a
// directory where a node file in RUN has members of that name, and RUN/rank0_pid7/pack00000.tdp a
// file. What is on the disk itself comes first. Nothing above Env knows of node files.
//
// Unlike files of their own: Map() of a member is kUnsupported (it may lie in several extents), and
// Rename() stays within a directory.
#pragma once

#include <memory>
#include <string>

#include "core/env.h"

namespace tdump::io {

// What is written in directories `run`/rank... becomes members of `run`/`node_file`, and of other
// node files in `run` nothing is seen. Empty: nothing new does, and what there is can be read and
// written. `base` outlives it.
std::unique_ptr<Env> NewNodeEnv(Env* base, std::string run = "", std::string node_file = "");

// The node file that the files in `directory` are in, as `env` shows them; "": they are files of
// their own. Of what it listed last: a directory that came since then is not known.
std::string NodeFileOf(Env* env, const std::string& directory);

// Where runs are read: NewNodeEnv(Env::Posix()). Never destroyed.
Env* RunEnv();

}  // namespace tdump::io
