#include "compare/shard_digests.h"

#include <algorithm>
#include <string>

#include "compare/made_parts.h"
#include "io/frame_builder.h"
#include "io/hash.h"

namespace tdump::compare {
namespace {

void Append(const Statistics& s, std::string* text) {
  for (const uint64_t count :
       {s.count, s.finite, s.nan, s.positive_inf, s.negative_inf, s.zeros, s.negative_zeros})
    io::AppendStruct(count, text);
  for (const double number : {s.min, s.max, s.mean, s.std, s.l1, s.l2})
    io::AppendStruct(number, text);
  io::AppendStruct(s.histogram, text);
  for (const __int128 number : {s.exact_min, s.exact_max, s.exact_sum})
    io::AppendStruct(number, text);
}

Parts KindsOf(const io::Record& record) {
  const bool slice = record.slice && record.slice->hash != io::Hash128{};
  return (record.hash ? kPartHash : kPartNone) | (record.statistics ? kPartStats : kPartNone) |
         (record.sample ? kPartSample : kPartNone) | (slice ? kPartSlice : kPartNone);
}

io::Hash128 DigestOf(const io::Record& record, Parts kinds) {
  std::string text(record.dtype.view());
  if ((kinds & kPartHash) != 0) io::AppendStruct(*record.hash, &text);
  if ((kinds & kPartStats) != 0) Append(*record.statistics, &text);
  if ((kinds & kPartSlice) != 0) io::AppendStruct(record.slice->hash, &text);
  if ((kinds & kPartSample) != 0)
    text.append(reinterpret_cast<const char*>(record.sample->data()), record.sample->size());
  return io::HashPayload(std::as_bytes(std::span(text)));
}

bool IsStoredInFull(const io::Record& record) {
  const std::vector<bool> once = StoredOnce(record);
  return std::find(once.begin(), once.end(), true) == once.end();
}

}  // namespace

Result<std::vector<io::Hash128>> ShardDigests(const LoadedShards& loaded) {
  const ShardSet& set = loaded.set;
  std::vector<io::Hash128> digests;
  if (!set.hashes.empty() || set.has_payload || loaded.data.empty()) return digests;
  const auto has_less = [](const MemberData& data) { return !data.record.payload; };
  const auto less = std::find_if(loaded.data.begin(), loaded.data.end(), has_less);
  std::vector<io::Record> records;
  Parts kinds = ~Parts{0};
  for (size_t i = 0; i < loaded.data.size(); ++i) {
    const io::Record& record = loaded.data[i].record;
    if (set.refs[i].part) return digests;  // of a part nothing is known
    records.push_back(record);
    const LackingParts lacking = PartsLacking(record, less->record, /*summarised=*/false);
    if (lacking.bytes() && IsStoredInFull(record)) {
      TDUMP_ASSIGN_OR_RETURN(Source source, set.step->OpenShard(set.refs[i]));
      TDUMP_ASSIGN_OR_RETURN(records.back(),
                             MakeParts(record, less->record, lacking, BytesOf(std::move(source))));
    }
    kinds &= KindsOf(records.back());
  }
  if (kinds == kPartNone) return digests;
  for (const io::Record& record : records) digests.push_back(DigestOf(record, kinds));
  return digests;
}

}  // namespace tdump::compare
