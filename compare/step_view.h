// StepView: one side of one unit of comparison: the tensors of a step, under the names by which
// they are compared, wherever their elements lie. Everything that pairs, measures, judges and
// reports sees tensors through it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compare/payload_view.h"
#include "compare/summary.h"
#include "core/status.h"
#include "io/pass_reader.h"
#include "io/records.h"

namespace tdump::compare {

// Thread-safe after it was opened.
class StepView {
 public:
  using VisitTensor = std::function<bool(const io::Record&)>;  // false: stop
  using VisitCall = std::function<bool(const io::CallRecord&)>;

  virtual ~StepView() = default;

  // Metadata, with the names that are compared and the sizes of the whole tensor. A tensor that is
  // put together has contiguous strides, and no hash or other parts unless those of the whole are
  // known. Ids are the view's own, unique in it, from 1 on. Tile digests may be left out.
  virtual Status ForEachTensor(const VisitTensor& visit) const = 0;
  virtual Result<io::Record> Get(uint64_t id) const = 0;
  // What is at hand without reading, of a copy that of the tensor it is a copy of; null: only Get
  // tells.
  virtual const io::Record* Known(uint64_t /*id*/) const { return nullptr; }

  // The canonical payload of a record that this view gave, or of its slice (io::SliceAsRecord). The
  // result is for one thread at a time and lives at most as long as the view and the record; errors
  // of its calls: kCorrupt. Sequential reading is fast whatever the pieces. Error: the tensor
  // cannot be put together.
  virtual Result<ReadBytes> Open(const io::Record& record) const = 0;

  // What is known of the values of a record that this view gave, without reading any.
  virtual std::optional<Summary> SummaryOf(const io::Record& record) const {
    if (!record.statistics) return std::nullopt;
    return compare::SummaryOf(*record.statistics);
  }

  // A record's call_begin is the begin of one of these calls. Begin and end are in one order of
  // time over everything the view holds.
  virtual Status ForEachCall(const VisitCall& visit) const = 0;

  // What of its files could not be read.
  virtual const std::vector<io::Damage>& damage() const = 0;

  // Whether tensors are put together of what several ranks captured: else the rest says nothing.
  virtual bool is_assembled() const { return false; }

  // Whether some tensors appear as the numbers that they stand for (DequantisedView); those that
  // `picks`, asked for what is stored, appear so from now on, their scales too. Before anything
  // else is asked.
  virtual bool dequantises() const { return false; }
  virtual void ShowStored(const std::function<bool(const io::Record& stored)>& /*picks*/) {}

  // How a tensor was put together, for the report: "concatenated on tp (inferred)"; "" where it is
  // one record as it was captured.
  virtual std::string LayoutOf(uint64_t /*id*/) const { return ""; }

  // Whether it is made of what several ranks hold, other than copies.
  virtual bool IsJoined(uint64_t /*id*/) const { return false; }

  // Why a tensor cannot be put together ("shard of rank 3 is missing"), or that its replicas
  // differ; an error of this tensor alone. Where it is not ok nothing is said of the values.
  virtual Status StateOf(uint64_t /*id*/) const { return Status(); }

  // The dims under which a tensor that is a sum over ranks were their mean, and `times` times
  // smaller; "" where there are none.
  virtual std::string DimsOfMean(uint64_t /*id*/, uint64_t /*times*/) const { return ""; }
  // Those under which one whose layout was inferred, and disagrees with the other side, were such a
  // mean and agreed.
  virtual std::string DimsOfAgreeingMean(uint64_t /*id*/) const { return ""; }

  // The rank whose capture holds the element at `position` (in elements), -1 where several hold it
  // or the view is of one rank only.
  virtual int32_t RankAt(uint64_t /*id*/, std::span<const uint64_t> /*position*/) const {
    return -1;
  }
  // Of a tensor that is put together of shards known by their hashes: the ranks whose shard has
  // another hash than that of its place on the other side, ascending; none where values tell.
  virtual std::vector<int32_t> RanksApart(uint64_t /*id*/) const { return {}; }
};

// One pass of one process as it was captured.
class OnePass : public StepView {
 public:
  // `part`: unfinished, which is no damage; what stands is read.
  explicit OnePass(std::unique_ptr<io::PassReader> reader, bool part = false);

  Status ForEachTensor(const VisitTensor& visit) const override;
  Result<io::Record> Get(uint64_t id) const override;
  Result<ReadBytes> Open(const io::Record& record) const override;
  Status ForEachCall(const VisitCall& visit) const override;
  const std::vector<io::Damage>& damage() const override { return damage_; }

 private:
  std::unique_ptr<io::PassReader> reader_;
  std::vector<io::Damage> damage_;
};

}  // namespace tdump::compare
