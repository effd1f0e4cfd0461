#include "compare/explain.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tdump::compare {
namespace {

// A power for a signal-to-error ratio in dB.
double Db(double db) { return std::pow(10, -db / 10); }

ErrorLevel Bf16() { return {.power = 2.2e-5, .peak = 0.016, .gain = 0.004}; }

// A program being made: modules in a row, each with one input and one output.
struct Program {
  std::vector<Sample> samples;
  std::vector<CallInterval> calls;
  uint64_t clock = 0;

  static ErrorLevel Level(double db, double gain) {
    return {.power = Db(db), .peak = 4 * std::sqrt(Db(db)), .gain = gain};
  }
  Sample Base(OperatorClass kind, double db, double gain) {
    Sample sample;
    sample.kind = kind;
    sample.elements = 1 << 16;
    sample.error = Level(db, gain);
    sample.local = Bf16();
    sample.within_local = false;
    return sample;
  }
  // dB of what goes in and comes out.
  size_t Add(OperatorClass kind, double in_db, double out_db, double out_gain = 0,
             double in_gain = 0) {
    const uint64_t begin = ++clock, end = ++clock;
    Sample in = Base(kind, in_db, in_gain), out = Base(kind, out_db, out_gain);
    in.order = in.call = out.call = begin;
    in.path = out.path = begin;
    out.order = end;
    out.output = true;
    samples.push_back(in);
    samples.push_back(out);
    calls.push_back({begin, end});
    return samples.size() - 1;
  }
  std::vector<Explanation> Run(bool compute = true) const {
    return Explain(samples, calls, {.compute = compute});
  }
};

TEST(Explain, NoiseThatIsCarriedOnIsNoOrigin) {
  Program program;
  program.samples.push_back(program.Base(OperatorClass::kUnknown, 25, 0));  // what was there before
  program.samples[0].local = Program::Level(20, 0.1);
  for (int i = 0; i < 20; ++i) program.Add(OperatorClass::kNormalisation, 25, 24.5, 0.003);
  for (const Explanation& e : program.Run()) EXPECT_TRUE(e.within);
}

// What a few elements that are larger than all others hide.
TEST(Explain, MostElementsMustBeAlikeInTheForward) {
  const auto within = [](bool unlike, bool backward, bool compute, double gain = 0.1) {
    Program program;
    const size_t out = program.Add(OperatorClass::kProduct, 40, 40);
    for (Sample& sample : program.samples) {
      sample.local = Program::Level(30, gain);
      sample.within_local = true;
    }
    program.samples[out].unlike = unlike;
    program.samples[out].backward = backward;
    return program.Run(compute)[out].within;
  };
  for (const bool compute : {true, false}) {
    EXPECT_TRUE(within(false, false, compute));
    EXPECT_FALSE(within(true, false, compute));
    EXPECT_TRUE(within(true, /*backward=*/true, compute));
  }
  // Of sums that cancel out nothing but rounding is left.
  EXPECT_TRUE(within(true, false, /*compute=*/false, /*gain=*/0x1p-20));
}

TEST(Explain, AnOutputThatIsWorseThanItsInputExplainsFails) {
  Program program;
  const size_t good = program.Add(OperatorClass::kNormalisation, 60, 55);
  const size_t bad = program.Add(OperatorClass::kNormalisation, 55, 26);
  const size_t later = program.Add(OperatorClass::kNormalisation, 26, 26);
  // What goes into the first is explained by its own precision: 2.2e-5 is 46.6 dB.
  const auto result = program.Run();
  EXPECT_TRUE(result[good].within);
  EXPECT_FALSE(result[bad].within);
  EXPECT_FALSE(result[bad].follows);
  EXPECT_TRUE(result[bad].in_known);
  EXPECT_NEAR(result[bad].in.power, Db(55), 1e-12);
  EXPECT_FALSE(result[later].within);
  EXPECT_TRUE(result[later].follows);
}

// What parted elsewhere does not excuse it.
TEST(Explain, AnInputThatIsAnOutputInAIsHeldToThatOutput) {
  const auto within = [](uint64_t content_a, double db) {
    Program program;
    program.Add(OperatorClass::kProduct, 60, 57);
    const size_t from = program.Add(OperatorClass::kElementwise, 120, 120);
    const size_t input = program.Add(OperatorClass::kProduct, db, db) - 1;
    for (Sample& sample : program.samples) sample.local = Program::Level(125, 1e-6);
    program.samples[0].local = program.samples[1].local = Program::Level(50, 0.01);
    program.samples[from].content_a = 7;
    program.samples[input].content_a = content_a;
    return program.Run()[input].within;
  };
  EXPECT_TRUE(within(7, 118));
  EXPECT_FALSE(within(7, 71));
  EXPECT_TRUE(within(8, 71));  // not known where it comes from
}

// It goes into what an optimizer keeps, into nothing else.
TEST(Explain, WhatASumIsOffByExplainsTheGradientOfAParameter) {
  Program program;
  const size_t good = program.Add(OperatorClass::kProduct, 60, 55);
  Sample terms = program.Base(OperatorClass::kProduct, 60, 0);
  terms.order = ++program.clock;
  terms.path = program.samples[good].path;
  terms.backward = true;
  program.samples.push_back(terms);
  Sample gradient = terms;
  gradient.order = ++program.clock;
  gradient.output = gradient.of_parameter = true;
  gradient.elements = 32;
  gradient.error = Program::Level(3, 0.5);
  program.samples.push_back(gradient);
  const size_t sum = program.samples.size() - 1;
  Sample later = program.Base(OperatorClass::kUnknown, 20, 0);
  later.order = ++program.clock;
  later.backward = later.output = true;
  program.samples.push_back(later);
  // Noise of 1e-3 in 100 terms of size 1: a sum is off by 0.01.
  const auto run = [&](double rms) {
    const auto size = [&](size_t i) -> std::optional<TensorSize> {
      if (i != sum) return TensorSize{{100, 32}, 1, 1, 0x1p-24};
      return TensorSize{{32}, rms, rms, 0x1p-24};
    };
    return Explain(program.samples, program.calls, {.compute = true, .size = size});
  };
  EXPECT_TRUE(run(0.01)[sum].within);
  EXPECT_EQ(run(0.01)[sum].sum.terms, 100u);
  EXPECT_FALSE(run(0.01)[sum + 1].within);
  EXPECT_FALSE(run(0.1)[sum].within);
}

// Elements whose ReLU flipped are left out, but all of the error goes on.
TEST(Explain, AGradientIsJudgedByWhatDidNotFlip) {
  Program program;
  program.Add(OperatorClass::kElementwise, 60, 55);
  const size_t gradient = program.Add(OperatorClass::kElementwise, 55, 28);
  const size_t later = program.Add(OperatorClass::kProduct, 28, 25);
  for (size_t i = gradient - 1; i <= later; ++i) program.samples[i].backward = true;
  const auto run = [&](double db, bool known = true) {
    const auto unflipped = [&](size_t i) -> std::optional<Unflipped> {
      if (i != gradient || !known) return std::nullopt;
      return Unflipped{
          .flipped = 1, .elements = 9, .error = Program::Level(db, 0), .within_local = false};
    };
    return Explain(program.samples, program.calls, {.compute = true, .unflipped = unflipped});
  };
  EXPECT_TRUE(run(50)[gradient].within && run(50)[later].within);
  EXPECT_FALSE(run(30)[gradient].within || run(30)[later].within);
  EXPECT_FALSE(run(50, false)[gradient].within);
}

// The error of a factor 1.05 is 26 dB: with noise of 25 dB the sum is 22.5 dB, which alone could be
// amplification.
TEST(Explain, AFactorIsSeenThroughNoiseOfItsSize) {
  Program program;
  program.samples.push_back(program.Base(OperatorClass::kUnknown, 25, 0));
  program.samples[0].local = Program::Level(20, 0.1);
  const size_t noisy = program.Add(OperatorClass::kNormalisation, 25, 22.5, 0.003);
  const size_t scaled = program.Add(OperatorClass::kNormalisation, 25, 22.5, 0.05);
  const auto result = program.Run();
  EXPECT_TRUE(result[noisy].within);
  EXPECT_FALSE(result[scaled].within);
}

// What comes out of a product into which 50 dB go.
bool IsExplained(uint64_t elements, double power, double gain) {
  Program program;
  const size_t out = program.Add(OperatorClass::kProduct, 50, 50);
  Sample& sample = program.samples[out];
  sample.elements = sample.channels = elements;
  sample.error = {.power = power, .peak = 0.01, .gain = gain};
  return program.Run()[out].within;
}

// Chi-square with n degrees of freedom exceeds 23.928, 27.631 (-2 ln 1e-6), 33.377 once in a
// million times, for n = 1, 2 and 4; the bound of power is 4 times the average. The formula is at
// most 0.65 dB above.
TEST(Explain, FewElementsMayHaveMorePowerByChance) {
  const double most = 2.2e-5 + 20 * 1e-5;
  const auto explains = [&](uint64_t elements, double quantile, double gain) {
    const double power = quantile / static_cast<double>(elements) / 4 * most;
    const double above = power * std::pow(10, 0.065);
    return IsExplained(elements, power, gain * std::sqrt(power)) &&
           !IsExplained(elements, above, gain * std::sqrt(above));
  };
  EXPECT_TRUE(explains(1, 23.928, 1));  // of a single number all error is gain
  EXPECT_TRUE(explains(2, 27.631, 0));
  EXPECT_TRUE(explains(4, 33.377, 0));
  EXPECT_TRUE(IsExplained(14, 0.99 * most, 0));
  EXPECT_FALSE(IsExplained(14, 1.01 * most, 0));
  // Of two a half of it may be gain.
  EXPECT_TRUE(IsExplained(2, 3.4 * most, std::sqrt(23.928 / 4 / 2 * most)));
  EXPECT_FALSE(IsExplained(2, 3.4 * most, std::sqrt(28 / 4.0 / 2 * most)));
}

// One norm with noise of 20 dB in and out, after noise of 15 dB that explains what goes in.
Program OneNorm(double gain, bool louder) {
  Program program;
  program.samples.push_back(program.Base(OperatorClass::kUnknown, 20, 0));
  program.samples[0].local = Program::Level(15, 0.1);
  const size_t out = program.Add(OperatorClass::kNormalisation, 20, 20, gain);
  program.samples[out].error.power += gain * gain;
  program.samples[out].louder = louder;
  return program;
}

// Noise makes a norm smaller, not larger. 65536 elements count as 1024.
TEST(Explain, ANormMayShrinkMoreThanItMayGrow) {
  const auto within = [](double gain, bool louder) {
    return OneNorm(gain, louder).Run().back().within;
  };
  // 0.004 + 1.5 * sqrt(0.01 / 1024) = 0.0087; smaller by 2 * 0.01 more: 0.0287.
  EXPECT_TRUE(within(0.0086, true));
  EXPECT_FALSE(within(0.0088, true));
  EXPECT_TRUE(within(0.0286, false));
  EXPECT_FALSE(within(0.0288, false));
}

// 256 channels count as 4, however many rows there are.
TEST(Explain, NoiseThatAllRowsHaveInCommonMayHaveMoreGain) {
  const auto within = [](double gain, double common) {
    Program program = OneNorm(gain, true);
    for (Sample& sample : program.samples) {
      sample.channels = 256;
      sample.error.common = common * sample.error.power;
    }
    return program.Run().back().within;
  };
  // 0.004 + 1.5 * sqrt(0.01 * (0.25 / 4 + 0.75 / 1024)) = 0.0417; all of it: 0.079.
  EXPECT_TRUE(within(0.0416, 0.25));
  EXPECT_FALSE(within(0.0419, 0.25));
  EXPECT_TRUE(within(0.0788, 1));
  EXPECT_FALSE(within(0.0792, 1));
}

TEST(Explain, ANormMayAmplifyMoreThanOtherOperators) {
  for (const auto kind : {OperatorClass::kNormalisation, OperatorClass::kProduct}) {
    Program program;
    program.Add(kind, 60, 43);
    EXPECT_EQ(program.Run()[1].within, kind == OperatorClass::kNormalisation);
    program.samples[1].error = Program::Level(39, 0);
    EXPECT_FALSE(program.Run()[1].within);
  }
}

TEST(Explain, AClassThatAlwaysAmplifiesIsNoFault) {
  const auto program_with = [](double out_db, int count) {
    Program program;
    for (int i = 0; i < count; ++i) program.Add(OperatorClass::kProduct, 55, out_db);
    return program;
  };
  // 16 dB each, which is more than the usual 13 dB, in most operators: the model's way.
  Program usual = program_with(39, 9);
  for (const Explanation& e : usual.Run()) EXPECT_TRUE(e.within);
  // Too few of them to say so.
  Program few = program_with(39, 3);
  EXPECT_FALSE(few.Run()[1].within);
  // No class may amplify without end: 40 dB is a fault everywhere.
  Program wild = program_with(15, 9);
  EXPECT_FALSE(wild.Run()[1].within);
}

TEST(Explain, ElementsWithinTheirDtypeNeedNoExplanationUnlessThePrecisionIsGiven) {
  Program program;
  const size_t noisy = program.Add(OperatorClass::kNormalisation, 400, 45, 0.003);
  program.samples[noisy].within_local = true;
  EXPECT_TRUE(program.Run(false)[noisy].within);
  EXPECT_FALSE(program.Run(true)[noisy].within);
}

// One output, all of whose elements are within what their dtype allows.
bool IsWithinAs(const ErrorLevel& local, double power, double gain, uint64_t elements,
                bool with_input = true) {
  Program program;
  program.Add(OperatorClass::kProduct, 400, 400);
  Sample& in = program.samples[0];
  Sample& out = program.samples[1];
  in.error = {};
  in.within_local = out.within_local = true;
  out.error = {.power = power, .peak = local.peak, .gain = gain};
  out.local = local;
  out.elements = out.channels = elements;
  if (!with_input) program.samples.erase(program.samples.begin());
  return program.Run(false).back().within;
}

TEST(Explain, AFactorIsNotHiddenByACoarseDtype) {
  const ErrorLevel e5m2 = {.power = 0.0225, .peak = 0.5, .gain = 0.125};
  const ErrorLevel fp32 = {.power = 3e-14, .peak = 4.8e-7, .gain = 1.2e-7};
  for (const bool with_input : {true, false}) {
    // Rounding makes 46.6 dB, of 65536 elements a gain of 3 * sqrt(2.2e-5 / 1024) by chance.
    EXPECT_TRUE(IsWithinAs(Bf16(), 4e-5, 0.0042, 1 << 16, with_input));
    EXPECT_FALSE(IsWithinAs(Bf16(), 4e-5, 0.0052, 1 << 16, with_input));
    EXPECT_FALSE(IsWithinAs(e5m2, 1, 1, 64, with_input));  // twice as large
    // A single number, 4 roundings off.
    EXPECT_TRUE(IsWithinAs(Bf16(), 0.0156 * 0.0156, 0.0156, 1, with_input));
    EXPECT_TRUE(IsWithinAs(fp32, 4e-14, 2e-7, 1 << 16, with_input));
  }
}

TEST(Explain, EqualInputsExplainNothing) {
  Program program;
  const size_t out = program.Add(OperatorClass::kProduct, 0, 45);
  program.samples[0].error = {};
  program.samples[out].local = {.power = 0, .peak = 1, .gain = 1};
  EXPECT_FALSE(program.Run(false)[out].within);
}

// At 60 dB, 13 dB less in means of it, and 6 dB less than that in means of its square.
TEST(Explain, AGradientExplainsWhatIsMadeOfIt) {
  const auto within = [](StateKind kind, double db, uint64_t parameter = 7) {
    Program program;
    const size_t gradient = program.Add(OperatorClass::kProduct, 60, 60);
    program.samples[gradient].parameter = 7;
    program.samples[gradient].local = program.samples[gradient - 1].local = {};
    program.samples[gradient - 1].within_local = true;
    Sample state = program.Base(OperatorClass::kLookup, db, 0);
    state.local = {};
    state.order = state.call = ++program.clock;
    state.parameter = parameter;
    state.state = kind;
    program.samples.push_back(state);
    return program.Run(false).back();
  };
  EXPECT_TRUE(within(StateKind::kOfGradients, 47.1).within);
  EXPECT_FALSE(within(StateKind::kOfGradients, 46.9).within);
  EXPECT_TRUE(within(StateKind::kOfSquares, 41.1).within);
  EXPECT_FALSE(within(StateKind::kOfSquares, 40.9).within);
  EXPECT_TRUE(within(StateKind::kOfGradients, 47.1).in_known);
  EXPECT_FALSE(within(StateKind::kOfGradients, 47.1, 8).in_known);  // another parameter's
}

// (x + e)^2 is off by e^2 where e is larger than x: at most by the largest of it.
TEST(Explain, AGradientThatIsAllErrorExplainsWhatItsSquareIs) {
  const auto within = [](double peak, double db, double of_gradient = -60, uint64_t parameter = 7) {
    Program program;
    const size_t gradient = program.Add(OperatorClass::kProduct, 60, of_gradient);
    program.samples[gradient].parameter = 7;
    program.samples[gradient].local = {};
    program.samples[gradient].within_local = true;
    program.samples[gradient].error.peak = peak;
    Sample state = program.Base(OperatorClass::kLookup, db, 0);
    state.local = {};
    state.order = state.call = ++program.clock;
    state.parameter = parameter;
    state.state = StateKind::kOfSquares;
    program.samples.push_back(state);
    return program.Run(false).back().within;
  };
  // 20 times (4 + peak^2) 1e6: 135.02 dB.
  EXPECT_TRUE(within(1.26e3, -135));
  EXPECT_FALSE(within(1.26e3, -135.1));
  EXPECT_FALSE(within(630, -135));
  // Of one that is not larger than the gradient, or of another parameter, 80 times as before.
  EXPECT_TRUE(within(100, -18.9, 0.1));
  EXPECT_FALSE(within(100, -19.1, 0.1));
  EXPECT_TRUE(within(100, -53, -0.1));
  EXPECT_TRUE(within(1.26e3, -79, -60, 8));
  EXPECT_FALSE(within(1.26e3, -79.1, -60, 8));
}

// As in files of tensors by name, where states stand in front of gradients.
TEST(Explain, AGradientExplainsWhatWasReadBeforeIt) {
  Program program;
  const size_t gradient = program.Add(OperatorClass::kProduct, 60, 60);
  program.samples[gradient].parameter = 7;
  Sample state = program.Base(OperatorClass::kLookup, 47.1, 0);
  state.local = {};
  state.order = state.call = 0;
  state.parameter = 7;
  state.state = StateKind::kOfGradients;
  program.samples.insert(program.samples.begin(), state);
  const Explanation explained = program.Run(false).front();
  EXPECT_TRUE(explained.in_known);
  EXPECT_TRUE(explained.within);
}

TEST(Explain, TheSameTensorsAreJudgedOnce) {
  Program program;
  const size_t out = program.Add(OperatorClass::kProduct, 60, 20);
  const size_t next = program.Add(OperatorClass::kElementwise, 20, 20) - 1;
  program.samples[out].content = program.samples[next].content = 77;
  const auto result = program.Run();
  EXPECT_FALSE(result[out].within);
  EXPECT_FALSE(result[next].within);
  EXPECT_TRUE(result[next].follows);
  EXPECT_EQ(result[next].bound.power, result[out].bound.power);
}

TEST(Explain, AnEnclosingModuleIsExplainedByWhatHappenedInside) {
  Program program;
  Sample in = program.Base(OperatorClass::kUnknown, 400, 0);
  in.order = in.call = ++program.clock;
  program.samples.push_back(in);
  program.samples[0].error = {};
  for (int i = 0; i < 6; ++i) {
    const size_t inner = program.Add(OperatorClass::kProduct, 30, 30);
    program.samples[inner].local = program.samples[inner - 1].local = Program::Level(28, 0.1);
  }
  Sample out = program.Base(OperatorClass::kUnknown, 29, 0.001);
  out.call = in.call;
  out.output = true;
  out.order = ++program.clock;
  program.samples.push_back(out);
  program.calls.push_back({in.call, out.order});
  EXPECT_TRUE(program.Run().back().within);
  program.samples.back().error = Program::Level(5, 0);
  EXPECT_FALSE(program.Run().back().within);
}

TEST(Explain, WithoutInputsWhatWasSeenBeforeStandsIn) {
  Program program;
  for (int i = 0; i < 3; ++i) {
    const size_t out = program.Add(OperatorClass::kProduct, 30, 30);
    program.samples[out].local = Program::Level(28, 0.1);
    program.samples.erase(program.samples.end() - 2);
  }
  Sample alone = program.Base(OperatorClass::kElementwise, 27, 0.001);
  alone.call = ++program.clock;
  alone.order = ++program.clock;
  alone.output = true;
  program.samples.push_back(alone);
  const auto result = program.Run();
  EXPECT_TRUE(result.back().within);
  EXPECT_FALSE(result.back().in_known);
  program.samples.back().error = Program::Level(10, 0.001);
  EXPECT_FALSE(program.Run().back().within);
}

TEST(Explain, NothingIsNothing) { EXPECT_TRUE(Explain({}, {}, {}).empty()); }

}  // namespace
}  // namespace tdump::compare
