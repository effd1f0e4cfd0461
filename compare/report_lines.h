// What a report says, piece by piece, for the terminal and the HTML page alike. Everything that
// came from a file or a job is Printable here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/diff.h"
#include "compare/run_side.h"

namespace tdump::compare {

struct Fact {
  std::string name;  // "weights"
  std::string text;  // may have several lines
};
// What was compared and what it was computed from: paired, layout, weights, inputs, steps without
// any of it.
std::vector<Fact> Facts(const DiffReport& report);

// "ranks 0-1 of 2   float32   steps 0-1"; empty: nothing was compared.
std::string SideText(const DiffReport& report, const SideInfo& side, bool is_a);

std::string RankName(int32_t rank);  // "3"; "all" where ranks were put together
// "differing in: shape 0, dtype 0, special values 0, bits 131, tolerance 130".
std::string DifferingIn(const Counts& counts);

std::string ObservationText(const Row& row);  // "output", "input 0 of call 2"
std::string ShownName(const std::string& name);
// NaN or infinities that one side alone has, which what is said of errors leaves out.
bool HasNoDistance(const Metrics& metrics);
// How the values of a row differ, its worst element, and that of the largest relative error where
// it is another; "" for none.
std::string ValuesText(const Row& row);
std::string WorstText(const Row& row);
// Those behind the worst one, where they were asked for: "then [0, 4]   A 1   B 1.5".
std::vector<std::string> NextWorstTexts(const Row& row);
std::string WorstRelativeText(const Row& row);
std::string SqnrText(std::optional<double> sqnr_db);  // "26.9 dB", "exact", "undefined"
std::string UnpairedLine(const Unpaired& unpaired);
std::string DamageText(const io::Damage& damage);

// "runs/b@0", as tdump-view takes it; "" where it cannot.
std::string AddressOf(const SideInfo& side);
bool HasValues(const Row& row);  // B: all of them, a slice or a sample
// What prints B's side of a row, its worst element and those beside it: "tdump-view
// runs/b@0:0/1/layers.1.mlp.down@output# --values 8 --at 3,5"; "" where B is no run, or has no
// values of it.
std::string ViewCommand(const SideInfo& side, const Row& row);
// The worst element as --at takes it: "3,5"; "" where it is none of B's record as it was captured.
std::string PlaceOfWorst(const Row& row);
// Where values were not kept on both sides: the rule of a capture that keeps them, in words.
std::string CaptureAdvice(const Row& row);

}  // namespace tdump::compare
