// What a parameter or a buffer is held to.
//
// Parameters, and the buffers of the first step that was recorded, are numbers that were given.
// Where the step before was compared too a buffer is what its module made of its inputs (the
// running mean of a batch norm): a sum over all that the module was given for each of its elements.
// What such a mean is off by is at most the rms of the error of what goes in; of a variance at most
// twice that, relative to itself. Means of several steps keep within that.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "compare/bounds.h"
#include "compare/pass_diff.h"
#include "compare/tensor_sizes.h"

namespace tdump::compare {

// A weight that was cast is off by at most one rounding of each element, two where digits were cut
// off; near 0 by the least number of the format.
void TightenCast(const DType& a, const DType& b, LocalBound* local);

// float16 and coarser.
bool IsCoarse(const DType& dtype);
bool IsHeldToGain(const io::Record& a, const io::Record& b);
// The bounds of each element hide a factor; noise within them hardly has one.
void HoldGain(double explained, Comparison* comparison);

// Terms of an element of a buffer, by a call of its module; 0: not known.
uint64_t BufferTerms(std::span<const ArgumentMeta> arguments, const io::Record& buffer);
// Allows buffers outside their bound that a sum of that many terms (4096 where that is not known)
// and the error of their modules' inputs explain, where the step before was compared (`before`, see
// compare/optimizer_updates.h; asked where a buffer is outside). Inputs are those of the pass
// itself: what came before is off by about as much. Precondition: all else in it is judged.
void AllowBuffers(const AskBefore& before,
                  const std::function<uint64_t(const io::Record& buffer)>& terms_of,
                  TensorSizes* sizes, PassDiff* pass);

}  // namespace tdump::compare
