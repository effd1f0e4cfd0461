#include "compare/twin_view.h"

#include <algorithm>

#include "compare/dequantised.h"

namespace tdump::compare {
namespace {

bool IsHashAlone(const io::Record& record) {
  return record.hash && !record.payload && !record.slice && record.layout == Layout::kStrided;
}

// Values whose bytes are those of its hash: what was dequantised has others.
bool HasHashedValues(const io::Record& record) {
  return record.hash && record.payload && record.layout == Layout::kStrided &&
         RecordedDType(record) == record.dtype;
}

uint64_t PayloadBytes(const io::Record& record) {
  const std::vector<bool> once = StoredOnce(record);
  uint64_t bytes = record.dtype.unit_bytes();
  for (size_t i = 0; i < once.size(); ++i) {
    if (!once[i]) bytes *= static_cast<uint64_t>(record.sizes[i]);
  }
  return bytes;
}

}  // namespace

void TwinView::Show(uint64_t id) {
  const std::lock_guard lock(mutex_);
  shown_.insert(id);
  shows_ = true;
}

bool TwinView::IsShown(uint64_t id) const {
  if (!shows_) return false;
  const std::shared_lock lock(mutex_);
  return shown_.contains(id);
}

void TwinView::Load() const {
  // Of records that cannot be read nothing is found.
  (void)view().ForEachTensor([&](const io::Record& record) {
    if (HasHashedValues(record)) entries_.emplace_back(*record.hash, record.id);
    return true;
  });
  entries_.shrink_to_fit();
  std::sort(entries_.begin(), entries_.end());
}

// Of any shape: a payload is in row-major order, whatever the sizes.
std::optional<io::Record> TwinView::TwinOf(const io::Record& record) const {
  if (!IsHashAlone(record)) return std::nullopt;
  std::call_once(loaded_, [this] { Load(); });
  const uint64_t bytes = PayloadBytes(record);
  auto entry = std::lower_bound(entries_.begin(), entries_.end(), Entry(*record.hash, 0));
  for (; entry != entries_.end() && entry->first == *record.hash; ++entry) {
    auto twin = view().Get(entry->second);
    if (twin.ok() && twin->dtype == record.dtype && twin->payload->logical_bytes == bytes &&
        view().StateOf(twin->id).ok())
      return *std::move(twin);
  }
  return std::nullopt;
}

io::Record TwinView::WithValues(io::Record record) const {
  if (const auto twin = TwinOf(record)) {
    const uint64_t bytes = twin->payload->logical_bytes;
    record.payload = io::PayloadRef{.stored_bytes = bytes, .logical_bytes = bytes};
  }
  return record;
}

Status TwinView::ForEachTensor(const VisitTensor& visit) const {
  if (!shows_) return view().ForEachTensor(visit);
  return view().ForEachTensor([&](const io::Record& record) {
    return IsShown(record.id) ? visit(WithValues(record)) : visit(record);
  });
}

Result<io::Record> TwinView::Get(uint64_t id) const {
  if (!IsShown(id)) return view().Get(id);
  TDUMP_ASSIGN_OR_RETURN(io::Record record, view().Get(id));
  return WithValues(std::move(record));
}

Result<ReadBytes> TwinView::Open(const io::Record& record) const {
  if (!IsShown(record.id)) return view().Open(record);
  TDUMP_ASSIGN_OR_RETURN(const io::Record own, view().Get(record.id));
  auto found = TwinOf(own);
  if (!found) return view().Open(record);
  // What reads its bytes may refer to it.
  const auto twin = std::make_shared<const io::Record>(*std::move(found));
  TDUMP_ASSIGN_OR_RETURN(ReadBytes read, view().Open(*twin));
  return ReadBytes([twin, read = std::move(read)](uint64_t offset, std::span<std::byte> out) {
    return read(offset, out);
  });
}

bool MayBeOfTwins(const Comparison& comparison) {
  return comparison.evidence == Evidence::kPayload &&
         comparison.verdict.bitwise == Answer::kDiffers;
}

bool TwinViews::ShowFor(const io::Record& of_a, const io::Record& of_b) const {
  if (of_a.hash == of_b.hash || (!IsHashAlone(of_a) && !IsHashAlone(of_b))) return false;
  const Verdict known = JudgeMeta(of_a, of_b).verdict;
  if (known.shape != Answer::kSame || known.bitwise == Answer::kSame) return false;
  const bool has_values = (of_a.payload || a->HasTwin(of_a)) && (of_b.payload || b->HasTwin(of_b));
  if (!has_values) return false;
  if (!of_a.payload) a->Show(of_a.id);
  if (!of_b.payload) b->Show(of_b.id);
  return true;
}

}  // namespace tdump::compare
