//===- OpsRandom.td - Random numbers as values -------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_RANDOM_TD
#define FSDP_OPS_RANDOM_TD

include "OpBase.td"

def Fsdp_DrawOp : Fsdp_Op<"draw", [Pure]> {
  let summary = "random numbers of one site of the program";
  let description = [{
    A pure function of the state `from`, (seed, offset) as in a state of role
    `random`, of the `site`, and at run time of the rank: equal draws may be
    merged, a recomputation repeats its draw, draws at two sites are
    independent, and the order of draws means nothing. The program's new value
    of the state has the next offset, so that every step draws anew.

    | distribution | numbers | `range` | `given` | elements |
    |---|---|---|---|---|
    | `bernoulli` | p | | | 1 with probability p, else 0 |
    | `uniform` | from, to | | | from ≤ x < to |
    | `normal`, `log_normal` | mean, deviation | | | x; exp(x) |
    | `exponential` | rate | | | x > 0 |
    | `cauchy` | median, sigma | | | |
    | `geometric` | p | | | trials up to the first success |
    | `integer` | | least, greatest | | both included |
    | `poisson` | | | rate | |
    | `binomial` | | | count, probability | |
    | `gamma` | | | shape; the scale is 1 | |

    Example:

    ```mlir
    %mask = fsdp.draw bernoulli with [0.9] site 0 from %random
        : (tensor<2xi64>) -> tensor<4x8xi1>
    %k = fsdp.draw integer range [0, 9] site 1 from %random
        : (tensor<2xi64>) -> tensor<4xi64>
    %n = fsdp.draw poisson site 2 from %random given %rate
        : (tensor<2xi64>, tensor<4xf32>) -> tensor<4xf32>
    ```

    Constraints:
    * DR-1: the state is a tensor<2xi64>;
    * DR-2: numbers, range and tensors are as many as the distribution takes,
      and within its bounds;
    * DR-3: the site is from 0 to 2^32 - 1;
    * DR-4: elements are floating-point numbers; `bernoulli`, `geometric` and
      `integer` draw integers, too;
    * DR-5: tensors of parameters and the result have one contiguous type;
    * DR-6: the result fills its storage: a permutation of contiguous.
  }];
  let arguments = (ins AnyRankedTensor:$random,
                       Variadic<AnyRankedTensor>:$given,
                       Fsdp_DistributionAttr:$distribution,
                       OptionalAttr<F64ArrayAttr>:$numbers,
                       OptionalAttr<DenseI64ArrayAttr>:$range, I64Attr:$site);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `` $distribution (`with` $numbers^)? (`range` $range^)? `site` $site
    `from` $random (`given` $given^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The numbers, none if they are absent.
    ::llvm::SmallVector<double> getNumberValues();
  }];
}

#endif // FSDP_OPS_RANDOM_TD
