#include "compare/step_view.h"

#include <memory>

#include "core/key.h"

namespace tdump::compare {

OnePass::OnePass(std::unique_ptr<io::PassReader> reader, bool part) : reader_(std::move(reader)) {
  if (!part) damage_ = reader_->damage();
}

Status OnePass::ForEachTensor(const VisitTensor& visit) const {
  return reader_->ForEachRecordMeta(visit);
}

Result<io::Record> OnePass::Get(uint64_t id) const { return reader_->GetMeta(id); }

Result<ReadBytes> OnePass::Open(const io::Record& record) const {
  if (!record.payload) return NotFound("the values of " + ToText(record.key) + " were not kept");
  // Where the bytes are another record's, or the digests were left out, it is looked up once.
  std::shared_ptr<const io::Record> owner(&record, [](const io::Record*) {});
  if (record.payload->same_as != 0 || record.tile_digests.empty()) {
    TDUMP_ASSIGN_OR_RETURN(io::Record found, reader_->PayloadOwner(record));
    owner = std::make_shared<const io::Record>(std::move(found));
  }
  return InLargePieces(
      [this, owner](uint64_t offset, std::span<std::byte> out) {
        return reader_->ReadPayload(*owner, offset, out);
      },
      owner->payload->logical_bytes);
}

Status OnePass::ForEachCall(const VisitCall& visit) const { return reader_->ForEachCall(visit); }

}  // namespace tdump::compare
