#include "compare/foreign/foreign_side.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "compare/dequantised.h"
#include "compare/lost_passes.h"
#include "compare/pass_diff.h"
#include "compare/text.h"
#include "core/text.h"
#include "io/address.h"

namespace tdump::compare::foreign {
namespace {

constexpr size_t kMostSkipped = 100;
constexpr size_t kMostNames = 10;
constexpr size_t kMostLost = 4096;

// As it is compared: dimensions stored once keep their stride 0, the others are contiguous.
std::vector<int64_t> CanonicalStrides(const DumpTensor& tensor) {
  std::vector<int64_t> strides = ContiguousStrides(tensor.sizes);
  if (!tensor.values) return strides;
  for (size_t i = 0; i < strides.size(); ++i) {
    if (tensor.values->strides[i] == 0 && tensor.sizes[i] > 1) strides[i] = 0;
  }
  return strides;
}

std::string PlainNameOf(const NamedKey& named) {
  return PlainName(named.key.root, named.key.path, named.key.op);
}

// What a checkpoint calls "mlp.fc1.weight" is a parameter of mlp.fc1, also where the other side has
// no such name: maps are about modules.
void TakeWeightKey(Key* key) {
  const size_t dot = key->path.rfind('.');
  if (dot == std::string::npos || dot == 0 || !key->op.empty() || !key->arg.empty()) return;
  const std::string last = key->path.substr(dot + 1);
  const bool param = last == "weight" || last == "bias" || last.starts_with("weight_");
  const bool state = last == "running_mean" || last == "running_var";
  if (!param && !state) return;
  key->role = param ? Role::kParam : Role::kState;
  key->arg = last;
  key->path.resize(dot);
}

std::string NameOfKey(const Key& key) {
  io::Record record;
  record.key = key;
  return NameOf(record);
}

}  // namespace

ForeignStep::ForeignStep(DumpContents contents) : contents_(std::move(contents)) { MakeCalls(); }

void ForeignStep::MakeCalls() {
  std::map<std::tuple<std::string, std::string, std::string, uint64_t, Phase, bool>, size_t> known;
  for (size_t i = 0; i < contents_.tensors.size(); ++i) {
    const DumpTensor& tensor = contents_.tensors[i];
    const Key& key = tensor.name.key;
    const auto [found, is_new] = known.try_emplace(
        {key.root, key.path, key.op, key.call, key.phase, key.recompute}, calls_.size());
    call_of_.push_back(found->second);
    if (is_new) {
      io::CallRecord record;
      record.call.begin = 2 * i + 1;
      record.call.index = key.call;
      record.call.phase = key.phase;
      record.call.recompute = key.recompute;
      record.root = key.root;
      record.path = key.path;
      record.op = key.op;
      record.kind = tensor.name.kind;
      calls_.push_back(std::move(record));
    }
    calls_[found->second].call.end = 2 * i + 2;
    calls_[found->second].arguments.push_back(
        {key.role, key.arg, std::string(tensor.dtype.view()), tensor.sizes});
  }
}

io::Record ForeignStep::RecordOf(size_t index) const {
  const DumpTensor& tensor = contents_.tensors[index];
  const io::CallRecord& call = calls_[call_of_[index]];
  io::Record record;
  record.id = index + 1;
  record.key = tensor.name.key;
  record.kind = tensor.name.kind;
  record.cls = tensor.name.cls;
  record.call_begin = call.call.begin;
  record.seen = record.key.role == Role::kInput ? call.call.begin : call.call.end;
  record.dtype = tensor.dtype;
  record.device = "cpu";
  record.dims = tensor.dims;
  record.sizes = tensor.sizes;
  record.strides = CanonicalStrides(tensor);
  record.parts_asked = record.parts_kept = kPartMeta;
  if (!tensor.values) return record;
  record.requires_grad = tensor.values->requires_grad;
  record.parts_asked = record.parts_kept = kPartMeta | kPartPayload;
  const uint64_t bytes = CanonicalBytes(*tensor.values);
  record.payload = io::PayloadRef{.stored_bytes = bytes, .logical_bytes = bytes};
  return record;
}

Status ForeignStep::ForEachTensor(const VisitTensor& visit) const {
  for (size_t i = 0; i < contents_.tensors.size(); ++i) {
    if (!visit(RecordOf(i))) break;
  }
  return {};
}

Result<io::Record> ForeignStep::Get(uint64_t id) const {
  if (id == 0 || id > contents_.tensors.size())
    return NotFound(fmt::format("there is no tensor {}", id));
  return RecordOf(id - 1);
}

Result<ReadBytes> ForeignStep::Open(const io::Record& record) const {
  if (record.id == 0 || record.id > contents_.tensors.size())
    return NotFound(fmt::format("there is no tensor {}", record.id));
  const DumpTensor& tensor = contents_.tensors[record.id - 1];
  if (!tensor.values) return NotFound("the values of " + ToText(record.key) + " were not kept");
  TDUMP_ASSIGN_OR_RETURN(ReadBytes read, OpenCanonical(*tensor.values));
  return InLargePieces(std::move(read), CanonicalBytes(*tensor.values));
}

std::optional<Summary> ForeignStep::SummaryOf(const io::Record& record) const {
  if (record.id == 0 || record.id > contents_.tensors.size()) return std::nullopt;
  return contents_.tensors[record.id - 1].summary;
}

Status ForeignStep::ForEachCall(const VisitCall& visit) const {
  for (const io::CallRecord& call : calls_) {
    if (!visit(call)) break;
  }
  return {};
}

Result<std::unique_ptr<ForeignSide>> ForeignSide::Open(Env* env, const std::string& path) {
  TDUMP_ASSIGN_OR_RETURN(DumpCatalog catalog, FindDump(env, path));
  return std::unique_ptr<ForeignSide>(new ForeignSide(env, path, std::move(catalog)));
}

ForeignSide::ForeignSide(Env* env, std::string path, DumpCatalog catalog)
    : files_(OpenFiles::Of(env)),
      path_(std::move(path)),
      catalog_(std::move(catalog)),
      late_(files_, &catalog_) {
  std::map<std::tuple<uint64_t, int32_t, uint32_t, bool>, uint32_t> seen;  // files of one step
  std::set<int32_t> ranks;
  for (size_t i = 0; i < catalog_.units.size(); ++i) {
    const DumpUnit& unit = catalog_.units[i];
    PassRef pass{.rank = unit.rank, .process = unit.process, .step = unit.step, .index = i};
    pass.agreed = true;
    pass.extra = unit.extra;
    pass.nth = seen[{unit.step, unit.rank, unit.process, unit.extra}]++;
    world_ = std::max(world_, unit.rank + 1);
    ranks.insert(unit.rank);
    passes_.push_back(pass);
  }
  if (catalog_.rank || ranks.size() < 2) return;  // one rank's files alone may be all there is
  for (int32_t rank = 0; rank < world_ && lost_.size() < kMostLost; ++rank) {
    if (!ranks.contains(rank)) lost_.push_back(rank);
  }
}

SideInfo ForeignSide::Describe() const {
  const bool plain = catalog_.kind == DumpKind::kFiles;
  SideInfo info;
  info.label = plain ? path_ : fmt::format("{} ({})", path_, ToString(catalog_.kind));
  info.run = path_;
  info.world = world_;
  info.is_ours = false;
  if (!lost_.empty())
    info.holes.push_back(
        fmt::format("{} {} {}", RanksText(lost_), lost_.size() == 1 ? "is" : "are", kNotInDump));
  return info;
}

bool ForeignSide::IsLost(int32_t rank) const { return std::ranges::binary_search(lost_, rank); }

std::optional<KilledState> ForeignSide::KilledStateOf(int32_t rank) const {
  if (!IsLost(rank)) return std::nullopt;
  return KilledState{.how = std::string(kNotInDump), .last = std::nullopt};
}

std::string ForeignSide::CoordinatesOf(int32_t rank) const {
  const auto found = catalog_.coordinates.find(rank);
  return found == catalog_.coordinates.end() ? "" : found->second;
}

std::string ForeignSide::WhyMissing(int32_t rank) const {
  const bool of_all = rank == kAllRanks;
  std::set<uint64_t> steps;
  for (const DumpUnit& unit : catalog_.units) {
    if (of_all || unit.rank == rank) steps.insert(unit.step);
  }
  const std::string of_rank = of_all ? "" : fmt::format(" of rank {}", rank);
  if (steps.empty()) return fmt::format("'{}' has nothing{}", path_, of_rank);
  return fmt::format("'{}' has {}{}", path_, StepsText({steps.begin(), steps.end()}), of_rank);
}

DumpContents ForeignSide::Read(const PassRef& pass) const {
  DumpContents contents = ReadDump(files_, catalog_.kind, catalog_.units[pass.index]);
  late_.PutBack(pass.index, &contents);
  if (only_.empty()) return contents;
  std::erase_if(contents.tensors, [&](const DumpTensor& tensor) {
    return PlainNameOf(tensor.name) != only_ && !io::NameMatches(only_, tensor.name.key);
  });
  return contents;
}

Status ForeignSide::KeepOnly(const std::string& name) {
  only_.clear();
  const DumpContents before = Read(passes_.front());
  only_ = name;
  if (!Read(passes_.front()).tensors.empty()) return {};
  std::vector<std::string> names;
  for (const DumpTensor& tensor : before.tensors) {
    if (names.size() < kMostNames) names.push_back(PlainNameOf(tensor.name));
  }
  return NotFound(fmt::format("'{}' has no tensor '{}'; it has {} tensors: {}{}", path_, name,
                              before.tensors.size(), fmt::join(names, ", "),
                              names.size() < before.tensors.size() ? ", ..." : ""));
}

// Names are the same in every step: those of one are enough, of all ranks, which may hold other
// layers.
Status ForeignSide::LoadKeys() const {
  if (keys_) return {};
  keys_.emplace();
  const auto add = [&](const Key& key) {
    const std::string name = NameOfKey(key);
    const auto [first, last] = keys_->equal_range(name);
    if (std::any_of(first, last, [&](const auto& item) { return item.second == key; })) return;
    keys_->emplace_hint(last, name, key);
  };
  if (other_dump_ != nullptr) {
    const bool checkpoints =
        catalog_.kind == DumpKind::kFiles && other_dump_->catalog_.kind == DumpKind::kFiles;
    for (const DumpTensor& tensor : other_dump_->Read(other_dump_->passes().front()).tensors) {
      Key key = tensor.name.key;
      if (checkpoints && !tensor.name.knows_role) TakeWeightKey(&key);
      add(key);
    }
  }
  if (other_ == nullptr || other_->passes().empty()) return {};
  const PassRef& front = other_->passes().front();
  for (const PassRef& pass : other_->passes()) {
    if (pass.step != front.step) continue;
    const auto step = other_->Open(pass);
    if (!step.ok() && pass.index != front.index) continue;  // told where it is compared
    if (!step.ok()) return step.status();
    TDUMP_RETURN_IF_ERROR((*step)->ForEachTensor([&](const io::Record& record) {
      add(record.key);
      return true;
    }));
  }
  return {};
}

// Of the first step as well.
void ForeignSide::LoadPrefix() const {
  if (prefix_) return;
  std::set<std::string> names;
  for (const DumpTensor& tensor : Read(passes_.front()).tensors)
    names.insert(tensor.name.knows_role ? NameOfKey(tensor.name.key) : PlainNameOf(tensor.name));
  const std::vector<std::string> here(names.begin(), names.end());
  std::vector<std::string> there;
  for (const auto& [name, key] : *keys_) there.push_back(name);
  prefix_ = FindPrefix(here, there);
  if (other_dump_ != nullptr) prefix_->added.clear();  // the other one drops it
}

NamePrefix ForeignSide::prefix() const {
  std::lock_guard lock(mutex_);
  return prefix_.value_or(NamePrefix{});
}

// Of a tensor whose role is known the prefix alone is taken: "module." of a wrapper.
void ForeignSide::TakePath(Key* key) const {
  if (prefix_->empty() || keys_->contains(NameOfKey(*key))) return;
  Key other = *key;
  other.path = key->path == "." ? prefix_->added : prefix_->Applied(key->path + ".");
  if (other.path.empty())
    other.path = ".";
  else
    other.path.pop_back();
  if (keys_->contains(NameOfKey(other))) *key = std::move(other);
}

void ForeignSide::TakeKey(bool only, NamedKey* named) const {
  if (named->knows_role) return TakePath(&named->key);
  Key& key = named->key;
  const std::string plain = PlainNameOf(*named);
  const std::string name = keys_->contains(plain) ? plain : prefix_->Applied(plain);
  auto [first, last] = keys_->equal_range(name);
  // A parameter in a list: its place is its name.
  if (first == last && !key.arg.empty())
    std::tie(first, last) = keys_->equal_range(name + "." + key.arg);
  if (std::any_of(first, last, [&](const auto& item) { return item.second == key; })) return;
  const auto the_only = [&](auto&& takes) -> const Key* {
    const Key* found = nullptr;
    for (auto item = first; item != last; ++item) {
      if (item->second.call != key.call || !takes(item->second)) continue;
      if (found != nullptr) return nullptr;
      found = &item->second;
    }
    return found;
  };
  const Key* taken = the_only(
      [&](const Key& other) { return other.role == Role::kOutput && other.phase == key.phase; });
  if (taken == nullptr) taken = the_only([](const Key&) { return true; });
  if (only && first == last && keys_->size() == 1) taken = &keys_->begin()->second;
  if (taken != nullptr)
    key = *taken;
  else if (catalog_.kind == DumpKind::kFiles)
    TakeWeightKey(&key);
}

Result<DumpContents> ForeignSide::ReadWithKeys(const PassRef& pass) const {
  DumpContents contents = Read(pass);
  std::lock_guard lock(mutex_);
  TDUMP_RETURN_IF_ERROR(LoadKeys());
  LoadPrefix();
  const bool only = takes_only_key_ && contents.tensors.size() == 1;
  for (DumpTensor& tensor : contents.tensors) TakeKey(only, &tensor.name);
  return contents;
}

Result<Asked> ForeignSide::Asks() const {
  const bool by_role = catalog_.kind == DumpKind::kProbe || catalog_.kind == DumpKind::kTagged;
  TDUMP_ASSIGN_OR_RETURN(const DumpContents contents, ReadWithKeys(passes_.front()));
  Asked asked;
  for (const DumpTensor& tensor : contents.tensors) {
    if (tensor.name.knows_role && !by_role)
      asked.keys.insert(ToText(tensor.name.key));
    else
      asked.roles.insert(tensor.name.key.role);
  }
  return asked;
}

Result<std::unique_ptr<StepView>> ForeignSide::Open(const PassRef& pass) const {
  TDUMP_ASSIGN_OR_RETURN(DumpContents contents, ReadWithKeys(pass));
  std::lock_guard lock(mutex_);
  for (const std::string& skipped : contents.skipped) {
    const bool told = std::find(skipped_.begin(), skipped_.end(), skipped) != skipped_.end();
    if (!told && skipped_.size() < kMostSkipped) skipped_.push_back(skipped);
  }
  return DequantisedView::Wrap(std::make_unique<ForeignStep>(std::move(contents)));
}

std::vector<std::string> ForeignSide::skipped() const {
  std::lock_guard lock(mutex_);
  return skipped_;
}

}  // namespace tdump::compare::foreign
