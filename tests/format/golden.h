// The golden files of the format (docs/format.md, "Golden files"), as
// the writers of io make them now.
//
//   pass.tdp        a whole pass: every section of version 1, records of many dtypes and layouts
//   torn.tdp.part   its first bytes, cut inside a record's frame
//   later.tdp       a pass of version 1.1 with a frame kind and sections that version 1.0 does not
//                   know
//   manifest.tdm    one process's journal: every entry, and the preallocated tail (cut to 64 bytes)
//   merged.tdm      the merged manifest of a run that has that journal
//   packed.tdp      a packed file of two passes that share a payload; packed_manifest.tdm: the
//                   entries of such passes
//   parts.tdp       records with statistics, a sample or a slice
//   node.tdn        a node file: the packed file, one in two extents, and one that was removed
//   compressed.tdp  payloads in codec 2; its bytes may change with the library, not what they mean
//
// tests/format/golden has them as they were when the format was fixed, and pass_big_endian.tdp,
// which tests/format/independent_reader.py makes from pass.tdp. They never change: a reader that
// cannot read them cannot read what users have.
#pragma once

#include <map>
#include <string>

namespace tdump::io::test {

// By file name. Ends the program with a message when something cannot be written.
std::map<std::string, std::string> GoldenFiles();

}  // namespace tdump::io::test
