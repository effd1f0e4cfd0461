// Files of torch.save, read without running anything in them: the ZIP form, and the one before it
// (torch.save(..., _use_new_zipfile_serialization=False)).
#pragma once

#include "compare/foreign/foreign_tensor.h"
#include "compare/foreign/zip_archive.h"

namespace tdump::compare::foreign {

bool LooksLikeLegacyTorch(const ByteSource& file);
bool IsTorchArchive(const ZipArchive& archive);

// The tensors in the order in which the file has them. What is no tensor, container or plain value
// is skipped, with the name of its class or function. Errors: kCorrupt; kUnsupported where there is
// something, but nothing that can be read.
Result<ForeignFile> ReadTorchArchive(std::shared_ptr<const ZipArchive> archive, Bytes file);
Result<ForeignFile> ReadLegacyTorch(Bytes file);

}  // namespace tdump::compare::foreign
