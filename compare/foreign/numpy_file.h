// NumPy's .npy (format versions 1 to 3) and .npz.
#pragma once

#include "compare/foreign/foreign_tensor.h"
#include "compare/foreign/zip_archive.h"

namespace tdump::compare::foreign {

bool LooksLikeNpy(const ByteSource& file);
// One tensor, its `place` empty. Errors: kCorrupt; kUnsupported for structured, object, text and
// time dtypes, which say so.
Result<ForeignTensor> ReadNpy(Bytes file);
// Every member NAME.npy is a tensor NAME; one that cannot be compared is skipped. Dtypes that NumPy
// does not have are those that the text `dtypes` of tdump-export says.
Result<ForeignFile> ReadNpz(std::shared_ptr<const ZipArchive> archive);

}  // namespace tdump::compare::foreign
