#include "compare/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "core/key.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostListed = 1000;  // parameters, damage, notes

// A candidate origin with everything the report will say of it: its pass is gone by then.
struct Suspect {
  Candidate candidate;
  uint64_t key_hash = 0;
  Origin origin;
  std::vector<ParameterDifference>
      passed_by;  // differing parameters of calls between `last_agreeing` and the difference
};

// Suspects of the earliest step that has any, and which keys differ there on which rank.
struct Suspects {
  std::vector<Suspect> list;
  std::map<int32_t, std::unordered_set<uint64_t>> differing;
  std::set<int32_t> ranks;  // that have a pass of that step
  uint64_t step = 0;

  // False: an earlier step has a suspect. Passes come in order of their steps.
  bool Enter(uint64_t next) {
    if (next == step) return true;
    if (!list.empty()) return false;
    step = next;
    ranks.clear();
    return true;
  }
};

Row MakeRow(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
  Row row;
  row.step_a = pair.a.step;
  row.step_b = pair.b.step;
  row.rank_a = pair.a.rank;
  row.rank_b = pair.b.rank;
  row.comparison = outcome.comparison;
  row.order = outcome.order;
  row.fails = outcome.fails;
  row.allowed = outcome.allowed;
  const auto a = pass.a->Get(outcome.ids.a);
  const auto b = pass.b->Get(outcome.ids.b);
  if (!a.ok() || !b.ok()) return row;
  row.name = NameOf(*b);
  row.key = b->key;
  row.kind = b->kind;
  row.cls = b->cls;
  row.dtype_a = a->dtype.view();
  row.dtype_b = b->dtype.view();
  row.shape_a = ElementShape(*a);
  row.shape_b = ElementShape(*b);
  const auto kept = [](const io::Record& record) {
    std::string text = PartsToString(record.parts_kept);
    if (record.reason != SkipReason::kNone) text += fmt::format(" ({})", ToString(record.reason));
    return text;
  };
  row.kept_a = kept(*a);
  row.kept_b = kept(*b);
  row.bound = DefaultBound(a->dtype, b->dtype, outcome.reduction).text;
  return row;
}

class Differ {
 public:
  Differ(const RunSide& a, const RunSide& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options) {}

  Result<DiffReport> Run() {
    TDUMP_ASSIGN_OR_RETURN(const PassPairing pairing, PairPasses(a_, b_, options_.pairing));
    for (size_t i = 0; i < pairing.pairs.size(); ++i) {
      AddPass(pairing.pairs[i]);
      if (options_.on_progress) options_.on_progress(i + 1, pairing.pairs.size());
    }
    for (const PassRef& pass : pairing.only_a) AddUnpairedPass('A', pass);
    for (const PassRef& pass : pairing.only_b) AddUnpairedPass('B', pass);
    FinishParameters();
    ChooseOrigins();
    Judge();
    for (const auto& [note, count] : notes_)
      report_.notes.push_back(fmt::format("{} ({} pairs)", note, count));
    return std::move(report_);
  }

 private:
  void AddPass(const PassPair& pair) {
    Result<PassDiff> compared = DiffPass(a_, b_, pair, options_.pass);
    if (!compared.ok()) {
      AddDamage({"", 0, compared.status().message()});
      return;
    }
    PassDiff& pass = *compared;
    ++report_.counts.passes_paired;
    NoteOnce(&report_.steps, std::pair(pair.a.step, pair.b.step));
    NoteOnce(&report_.ranks, std::pair(pair.a.rank, pair.b.rank));
    for (io::Damage& damage : pass.damage) AddDamage(std::move(damage));
    std::stable_sort(pass.outcomes.begin(), pass.outcomes.end(),
                     [](const Outcome& x, const Outcome& y) { return x.order < y.order; });
    for (const Outcome& outcome : pass.outcomes) AddOutcome(pass, pair, outcome);
    AddUnpairedRecords('A', *pass.a, pass.only_a, pair.a);
    AddUnpairedRecords('B', *pass.b, pass.only_b, pair.b);
    FindSuspects(pass, pair);
  }

  template <class T>
  static void NoteOnce(std::vector<T>* list, const T& value) {
    if (std::find(list->begin(), list->end(), value) == list->end()) list->push_back(value);
  }

  void AddDamage(io::Damage damage) {
    if (report_.damage.size() < kMostListed) report_.damage.push_back(std::move(damage));
  }

  void AddOutcome(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
    Count(outcome);
    const bool counts_as_failing = outcome.fails && !outcome.allowed;
    const bool listed = outcome.fails && report_.failing.size() < options_.top;
    for (const std::string& note : outcome.comparison.notes) CountNote(note);
    if (!options_.on_row && !listed && !outcome.is_weight() && !outcome.root_input) return;
    Row row = MakeRow(pass, pair, outcome);
    if (outcome.is_weight()) AddParameter(row, outcome);
    if (outcome.root_input) AddInput(row, outcome, counts_as_failing);
    if (options_.on_row) options_.on_row(row);
    if (listed) report_.failing.push_back(std::move(row));
  }

  void Count(const Outcome& outcome) {
    Counts& c = report_.counts;
    const Verdict& v = outcome.comparison.verdict;
    ++c.paired;
    c.failing += outcome.fails && !outcome.allowed;
    c.allowed += outcome.allowed;
    c.judged += v.Judged();
    c.not_judged += !v.Judged() && !outcome.fails;
    c.bits_equal += v.bitwise == Answer::kSame;
    c.equal_by_hash += outcome.comparison.evidence == Evidence::kHash && v.bitwise == Answer::kSame;
    c.read += outcome.comparison.evidence == Evidence::kPayload;
    c.unproven += v.bitwise == Answer::kDiffers && v.tolerance == Answer::kNotJudged;
    c.shape += v.shape == Answer::kDiffers;
    c.dtype += v.dtype == Answer::kDiffers;
    c.special += v.special == Answer::kDiffers;
    c.bits += v.bitwise == Answer::kDiffers;
    c.tolerance += v.tolerance == Answer::kDiffers;
    observations_judged_ += !outcome.is_weight() && v.Judged();
  }

  // Notes carry numbers (strides): their head, up to the colon, is counted.
  void CountNote(const std::string& note) {
    std::string head = note.substr(0, note.find(':'));
    if (const size_t in = head.find(" in "); in != std::string::npos) head.resize(in);
    if (notes_.size() < kMostListed) ++notes_[head];
  }

  void AddParameter(const Row& row, const Outcome& outcome) {
    ParameterReport& p = report_.parameters;
    ++p.pairs;
    parameter_names_.insert(row.name);
    if (!outcome.bits_differ) return;
    differing_names_.insert(row.name);
    const auto same = [&](const ParameterDifference& d) {
      return d.rank == row.rank_b && d.name == row.name;
    };
    if (std::any_of(p.differing.begin(), p.differing.end(), same)) return;
    if (p.differing.size() < kMostListed)
      p.differing.push_back({row.name, row.key.path, row.rank_b, row.step_b});
    else
      p.listed_all = false;
  }

  void AddInput(const Row& row, const Outcome& outcome, bool failing) {
    InputReport& inputs = report_.inputs;
    ++inputs.compared;
    inputs.equal += outcome.comparison.verdict.bitwise == Answer::kSame;
    if (!failing) return;
    if (!inputs.first_differing_step) inputs.first_differing_step = row.step_b;
    if (inputs.differing.size() < kMostListed) NoteOnce(&inputs.differing, row.key.arg);
  }

  void AddUnpaired(Unpaired unpaired, uint64_t records) {
    Counts& c = report_.counts;
    (unpaired.side == 'A' ? c.unpaired_a : c.unpaired_b) += records;
    unpaired.allowed =
        !unpaired.name.empty() && options_.allow_unpaired && options_.allow_unpaired(unpaired.name);
    if (unpaired.allowed) c.unpaired_allowed += records;
    unpaired_failing_ |= !unpaired.allowed;
    if (options_.on_unpaired) options_.on_unpaired(unpaired);
    if (report_.unpaired.size() < options_.top) report_.unpaired.push_back(std::move(unpaired));
  }

  void AddUnpairedPass(char side, const PassRef& pass) {
    Unpaired unpaired;
    unpaired.side = side;
    unpaired.step = pass.step;
    unpaired.rank = pass.rank;
    unpaired.extra = pass.extra;
    unpaired.records = pass.entry->records;
    AddUnpaired(std::move(unpaired), pass.entry->records);
  }

  void AddUnpairedRecords(char side, const io::PassReader& reader, const std::vector<uint64_t>& ids,
                          const PassRef& pass) {
    for (const uint64_t id : ids) {
      const auto record = reader.Get(id);
      if (!record.ok()) continue;
      Unpaired unpaired;
      unpaired.side = side;
      unpaired.step = pass.step;
      unpaired.rank = pass.rank;
      unpaired.name = NameOf(*record);
      unpaired.key = ToText(record->key);
      AddUnpaired(std::move(unpaired), 1);
    }
  }

  void FindSuspects(const PassDiff& pass, const PassPair& pair) {
    std::vector<Observed> observed;
    bool all_equal = true;
    for (size_t i = 0; i < pass.outcomes.size(); ++i) {
      const Outcome& outcome = pass.outcomes[i];
      if (outcome.is_weight() || outcome.allowed ||
          !(outcome.comparison.verdict.Judged() || outcome.fails))
        continue;
      all_equal &= !outcome.bits_differ;
      observed.push_back({.order = outcome.order,
                          .call = outcome.call,
                          .output = outcome.is_output(),
                          .root_input = outcome.root_input,
                          .fails = outcome.fails,
                          .bits_differ = outcome.bits_differ,
                          .outcome = i});
    }
    if (all_equal && !observed.empty() && !reproducible_from_) reproducible_from_ = pair.b.step;
    const PassFinding finding = FindFirst(&observed);
    AddSuspect(pass, pair, finding.beyond_bound, &beyond_bound_,
               [](const Outcome& o) { return o.fails; });
    AddSuspect(pass, pair, finding.bits, &bits_, [](const Outcome& o) { return o.bits_differ; });
  }

  template <class Differs>
  void AddSuspect(const PassDiff& pass, const PassPair& pair,
                  const std::optional<FirstDifference>& first, Suspects* suspects,
                  const Differs& differs) {
    if (!suspects->Enter(pair.b.step)) return;
    suspects->ranks.insert(pair.b.rank);
    if (!first) return;
    auto& keys = suspects->differing[pair.b.rank];
    for (const Outcome& outcome : pass.outcomes) {
      if (differs(outcome)) keys.insert(outcome.key_hash);
    }
    suspects->list.push_back(MakeSuspect(pass, pair, *first));
  }

  Suspect MakeSuspect(const PassDiff& pass, const PassPair& pair,
                      const FirstDifference& first) const {
    const Outcome& outcome = pass.outcomes[first.outcome];
    Suspect suspect;
    suspect.candidate = {
        .step = pair.b.step, .rank = pair.b.rank, .structure = pass.structure, .first = first};
    suspect.key_hash = outcome.key_hash;
    Origin& origin = suspect.origin;
    origin.kind = first.kind;
    origin.certain = first.certain();
    origin.step_a = pair.a.step;
    origin.step = pair.b.step;
    origin.rank_a = pair.a.rank;
    origin.rank = pair.b.rank;
    origin.row = MakeRow(pass, pair, outcome);
    origin.path = origin.row->key.path;
    origin.op = origin.row->key.op;
    origin.name = PlainName(origin.row->key.root, origin.path, origin.op);
    if (outcome.is_output()) {
      for (const Outcome& other : pass.outcomes) {
        if (other.call == outcome.call && !other.is_output() && !other.is_weight()) {
          origin.inputs.push_back(MakeRow(pass, pair, other));
        }
      }
    }
    if (first.last_agreeing)
      origin.last_agreeing = MakeRow(pass, pair, pass.outcomes[*first.last_agreeing]);
    const uint64_t from = first.last_agreeing ? pass.outcomes[*first.last_agreeing].order : 0;
    for (const ParameterDifference& parameter : report_.parameters.differing) {
      if (parameter.rank != pair.b.rank) continue;
      const auto passed = [&](const auto& call) {
        return call.second.begin > from && call.second.begin < outcome.order &&
               call.second.path == parameter.path;
      };
      if (std::any_of(pass.calls.begin(), pass.calls.end(), passed))
        suspect.passed_by.push_back(parameter);
    }
    return suspect;
  }

  void FinishParameters() {
    report_.parameters.compared = parameter_names_.size();
    report_.parameters.differing_names = differing_names_.size();
  }

  // The operator's own differing parameter, "" when there is none.
  std::string OwnParameter(const Origin& origin) const {
    for (const ParameterDifference& parameter : report_.parameters.differing) {
      if (parameter.rank == origin.rank && PathWithin(parameter.path, origin.path))
        return parameter.name;
    }
    return "";
  }

  std::optional<Suspect> Choose(Suspects* suspects) {
    if (suspects->list.empty()) return std::nullopt;
    std::vector<Candidate> candidates;
    for (Suspect& suspect : suspects->list) {
      suspect.origin.parameter = OwnParameter(suspect.origin);
      suspect.candidate.own_parameter = !suspect.origin.parameter.empty();
      candidates.push_back(suspect.candidate);
    }
    Suspect chosen = suspects->list[ChooseOrigin(candidates)];
    Origin& origin = chosen.origin;
    if (origin.kind == OriginKind::kInterval && !chosen.passed_by.empty()) Promote(&chosen);
    for (const int32_t rank : suspects->ranks) {
      if (rank == origin.rank) continue;
      const auto keys = suspects->differing.find(rank);
      const bool alike =
          keys != suspects->differing.end() && keys->second.contains(chosen.key_hash);
      (alike ? origin.ranks_alike : origin.ranks_agreeing).push_back(rank);
    }
    return chosen;
  }

  // The cause lies between two observations, and a call between them owns a parameter that differs.
  static void Promote(Suspect* suspect) {
    Origin& origin = suspect->origin;
    const ParameterDifference& parameter = suspect->passed_by.front();
    origin.kind = OriginKind::kParameter;
    origin.name = origin.path = parameter.path;
    origin.op.clear();
    origin.parameter = parameter.name;
  }

  void ChooseOrigins() {
    std::optional<Suspect> beyond = Choose(&beyond_bound_);
    std::optional<Suspect> bits = Choose(&bits_);
    const auto same = [](const Suspect& x, const Suspect& y) {
      return x.candidate.step == y.candidate.step && x.candidate.rank == y.candidate.rank &&
             x.key_hash == y.key_hash;
    };
    if (beyond && bits && !same(*beyond, *bits)) {
      const bool reproducible = reproducible_from_ && *reproducible_from_ <= bits->candidate.step;
      if (bits->candidate.own_parameter || reproducible) {
        bits->origin.by_bits = true;
        report_.origin = std::move(bits->origin);
        return;
      }
      report_.first_bits = std::move(bits->origin);
    }
    if (beyond)
      report_.origin = std::move(beyond->origin);
    else if (bits)
      report_.first_bits = std::move(bits->origin);
  }

  void Judge() {
    const Counts& c = report_.counts;
    if (c.paired == 0) {
      report_.why_not = c.unpaired_a + c.unpaired_b == 0 && unpaired_failing_ == false
                            ? "neither side has a record in the selected steps, ranks and names"
                            : fmt::format("0 of {} paired", std::max(c.unpaired_a, c.unpaired_b));
      return;
    }
    const bool weights_decide = observations_judged_ == 0 && !report_.parameters.differing.empty();
    if (c.failing > 0 || unpaired_failing_ || weights_decide) {
      report_.overall = Overall::kDiffers;
      if (!report_.origin && !report_.parameters.differing.empty())
        report_.origin = FromParameter();
    } else if (c.judged == 0) {
      report_.why_not = fmt::format(
          "of {} pairs only shape and dtype were kept, which agree; capture with level hash or "
          "full",
          c.paired);
    } else {
      report_.overall = Overall::kSame;
    }
  }

  Origin FromParameter() const {
    const ParameterDifference& first = report_.parameters.differing.front();
    Origin origin;
    origin.kind = OriginKind::kParameter;
    origin.step = first.step;
    origin.rank = first.rank;
    origin.name = origin.path = first.path;
    origin.parameter = first.name;
    return origin;
  }

  const RunSide& a_;
  const RunSide& b_;
  const DiffOptions& options_;
  DiffReport report_;
  Suspects beyond_bound_, bits_;
  std::set<std::string> parameter_names_, differing_names_;
  std::map<std::string, uint64_t> notes_;
  std::optional<uint64_t>
      reproducible_from_;  // step of B of the first pass that is equal bit by bit
  uint64_t observations_judged_ = 0;
  bool unpaired_failing_ = false;
};

}  // namespace

std::string_view ToString(Overall overall) {
  switch (overall) {
    case Overall::kSame:
      return "same";
    case Overall::kDiffers:
      return "differs";
    case Overall::kNotComparable:
      return "not comparable";
  }
  return "unknown";
}

Result<DiffReport> Diff(const RunSide& a, const RunSide& b, const DiffOptions& options) {
  return Differ(a, b, options).Run();
}

}  // namespace tdump::compare
