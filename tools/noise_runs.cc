#include "tools/noise_runs.h"

#include <utility>

#include "tools/diff_source.h"

namespace tdump::tools {
namespace {

Status AddRepeat(const compare::RunSide& a, const std::string& text, compare::DiffOptions options,
                 compare::NoiseModel* noise) {
  TDUMP_ASSIGN_OR_RETURN(const DiffSource repeat, OpenDiffSource(text));
  options.on_row = [noise](const compare::Row& row) {
    const compare::Comparison& comparison = row.comparison;
    const bool equal = comparison.verdict.bitwise == compare::Answer::kSame;
    if (equal || comparison.evidence == compare::Evidence::kPayload)
      noise->Add(row.name, row.key, equal, comparison.metrics);
  };
  TDUMP_ASSIGN_OR_RETURN(const compare::DiffReport report, compare::Diff(a, *repeat.side, options));
  if (report.overall == compare::Overall::kNotComparable) return InvalidArgument(report.why_not);
  if (report.damage.empty()) return {};
  return Corrupt(report.damage.front().what);
}

}  // namespace

Result<std::shared_ptr<const compare::NoiseModel>> MeasureNoise(
    const compare::RunSide& a, const std::vector<std::string>& repeats,
    const compare::DiffOptions& options) {
  compare::DiffOptions quiet = options;
  quiet.on_unpaired = nullptr;
  quiet.on_pass = nullptr;
  quiet.on_progress = nullptr;
  quiet.team = nullptr;  // each process of a team measures all of it
  quiet.top = 0;
  quiet.pairing.step_shift = 0;  // a repeat counts as A does
  quiet.pass.rules = nullptr;
  quiet.pass.noise = nullptr;
  quiet.pass.allow_failed = nullptr;  // whether they are used is seen by what they are asked
  quiet.allow_unpaired = nullptr;
  auto noise = std::make_shared<compare::NoiseModel>();
  for (const std::string& text : repeats) {
    Status status = AddRepeat(a, text, quiet, noise.get());
    if (!status.ok()) return std::move(status.Annotate("--noise " + text));
  }
  return std::shared_ptr<const compare::NoiseModel>(std::move(noise));
}

}  // namespace tdump::tools
