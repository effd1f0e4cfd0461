// Explain: how far apart the two sides of each observation may be, given the error that went into
// its operator and the roundings the operator makes. What is beyond that was added by the operator:
// an origin shows as an output that is worse than its inputs and its precision explain.
//
//   1. Observations are taken in order of time. Of the error of each, three numbers count, all
//      relative to the signal (compare/bounds.h): power, peak and gain. Rounding noise has power
//      but hardly any gain (it does not follow the signal), a wrong factor is all gain: of a
//      LayerNorm whose weights are 1.05 times too large the gain is 0.05, however noisy its input.
//   2. What goes into an output: its call's recorded inputs, the weights of its module where they
//      differ within their bounds, for an enclosing module what was seen inside, for a gradient
//      the activations of its module. An input that is an earlier output in A is held to the error
//      of that output, whatever B made of it on the way. Where no input was recorded, and for any
//      other input, the errors seen shortly before stand in.
//   3. bound = roundings of the operator + amplification * what goes in. How much an operator
//      amplifies depends on the model: 20 in power, or four times the median over the operators of
//      its class in this pass where that is more (of at least five; at most 100). A norm makes all
//      rows equally large, so that noise of small rows counts as much as that of large ones: 100.
//   4. The gain that noise alone may have is that of a mean over many elements that should be 0. A
//      part of the noise is the same in all rows: that of rounded weights, and where a text repeats
//      itself all of it. That part is averaged over the channels only, the rest over all elements.
//   5. What an optimizer keeps is made of gradients, element by element: what explains these does,
//      their roundings and 20 times their error in power; of squares, of (x + e)^2 - x^2. Elements
//      decide of a momentum of gradients over their sizes. Where no gradient was recorded, or it is
//      equal (one of an earlier step may not have been), the errors seen shortly before stand in.
//   6. Where rounding puts the input of a ReLU on the other side of 0, the gradient of that element
//      comes or goes as a whole. A gradient outside its bound is judged without such elements where
//      they are known (compare/relu_flips.h); all of its error goes into what follows.
//   7. Where no precision was given it is enough that all elements are within what their dtype
//      allows; of bfloat16 and coarser dtypes the gain is held to its bound even so, plus what
//      noise of that size may have by chance.
//   8. Power, peak and gain are those of a few elements where these are far larger than all others
//      (activations of transformers by a factor of 1000). Where most others have hardly to do with
//      A's the observation fails, in the forward, if the precision is given or coarse.
//   9. Of the gradient of a parameter, a sum over rows whose terms may cancel, that is explained
//      too by which the sum is off on average (compare/gradient_sums.h): four times that in power.
//      It goes into what an optimizer keeps, into nothing else.
//  10. An observation outside its bound fails; for what follows it counts as if its operator had
//      passed on what went in, so that everything that carries the error on fails too, until it
//      has faded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compare/bounds.h"
#include "compare/gradient_sums.h"

namespace tdump::compare {

// What an optimizer keeps: means of gradients ("exp_avg"), of their squares ("exp_avg_sq"), or of
// gradients over their sizes (the "momentum_buffer" of RMSprop).
enum class StateKind : uint8_t { kNone, kOfGradients, kOfSquares, kOfSteps };

// One observation.
struct Sample {
  uint64_t order = 0;  // B's sequence number
  uint64_t call = 0;   // begin of its call
  uint64_t path = 0;   // equal for observations of one module
  bool output = false;
  bool backward = false;
  bool root_input = false;
  bool of_parameter = false;  // its gradient
  OperatorClass kind = OperatorClass::kUnknown;
  uint64_t elements = 0;
  uint64_t channels = 0;  // of a row; 0: not known
  // Equal for observations of the same two tensors; 0: not known.
  uint64_t content = 0;
  // The same of A's tensor alone.
  uint64_t content_a = 0;
  ErrorLevel error;     // 0 where both sides are equal
  bool louder = false;  // B is larger than A, along A
  bool unlike = false;  // most elements of B have hardly to do with A's (8)
  ErrorLevel local;     // what rounding explains
  ErrorLevel weights;   // of the module's own parameters, 0 where they are equal or not known
  // Of a parameter's gradient, and of what an optimizer keeps: equal for those of one parameter; 0:
  // of neither.
  uint64_t parameter = 0;
  StateKind state = StateKind::kNone;
  // All elements are within the bound of each, which is enough but for (7).
  bool within_local = true;
};

// A call that may enclose others.
struct CallInterval {
  uint64_t begin = 0, end = 0;
};

struct Explanation {
  ErrorLevel in;          // what goes in
  bool in_known = false;  // from recorded inputs
  ErrorLevel bound;       // what is explained
  SumError sum;           // that bound is of, among others (9)
  bool within = true;
  bool follows = false;  // not within, and neither is what goes in
};

// A gradient, measured without elements whose input is on the other side of 0 in one run.
struct Unflipped {
  uint64_t flipped = 0, elements = 0;  // left out, of all
  ErrorLevel error;                    // of the others
  bool within_local = true;            // all of them are within the bound of each
};

struct ExplainOptions {
  // The precision was given: each operator is held to it, also where every element is within what
  // its dtype allows.
  bool compute = false;
  // Of a gradient that is outside its bound; asked once, when all that came before is explained.
  // May be empty.
  std::function<std::optional<Unflipped>(size_t)> unflipped = {};
  // Of a momentum of steps that is outside its bound: whether its elements' steps explain it. May
  // be empty.
  std::function<bool(size_t)> momentum = {};
  // Of a gradient that is outside its bound, and of what it is a sum of. May be empty.
  GradientSums::SizeOf size = {};
};

// The observations of one unit of comparison in order of time, less than 2^31. Each is asked for up
// to three times, in order each time, and always the same until it is explained.
struct Samples {
  size_t count = 0;
  std::function<Sample(size_t)> at;
};

// Calls `explained` for each, in order. Memory: 24 bytes a sample, some numbers for each time at
// which any was seen, and what is said of those that are met again until they are.
void Explain(const Samples& samples, std::span<const CallInterval> calls,
             const ExplainOptions& options,
             const std::function<void(size_t, const Explanation&)>& explained);
std::vector<Explanation> Explain(std::span<const Sample> samples,
                                 std::span<const CallInterval> calls,
                                 const ExplainOptions& options);

}  // namespace tdump::compare
