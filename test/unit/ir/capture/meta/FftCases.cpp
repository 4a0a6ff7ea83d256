//===- FftCases.cpp - Fourier transforms on all kinds of arguments ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::fourierTransforms() {
  std::vector<Case> cases;
  for (const Ints &dims :
       {Ints{2}, Ints{1}, Ints{0}, Ints{1, 2}, Ints{2, 0}, Ints{0, 1, 2}}) {
    cases.push_back({"_fft_r2c", [=](const Maker &make) -> Stack {
                       return {make({4, 6, 5}), dims, 0, true};
                     }});
    cases.push_back({"_fft_r2c", [=](const Maker &make) -> Stack {
                       return {make({4, 6, 5}), dims, 2, false};
                     }});
    auto complex = [](const Maker &make, Ints sizes) {
      Tensor real = make(sizes);
      return real.is_complex() ? real : real.to(at::toComplexType(make.dtype));
    };
    cases.push_back({"_fft_c2c", [=](const Maker &make) -> Stack {
                       return {complex(make, {4, 6, 5}), dims, 1, true};
                     }});
    cases.push_back({"_fft_c2r", [=](const Maker &make) -> Stack {
                       Ints sizes = {4, 6, 5};
                       return {complex(make, sizes), dims, 0,
                               2 * (sizes[dims.back()] - 1)};
                     }});
  }
  cases.push_back({"_fft_c2c", [=](const Maker &make) -> Stack {
                     Tensor input = make({4, 6});
                     return {input.to(at::toComplexType(make.dtype)), Ints{}, 0,
                             true};
                   }});
  for (const char *op : {"fft_fft", "fft_ifft", "fft_hfft"})
    cases.push_back({op, [](const Maker &make) -> Stack {
                       return {make({4, 6}), none, 1};
                     }});
  return cases;
}
