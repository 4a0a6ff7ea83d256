// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<named = [#fsdp.bucket<"ends", ["embed.weight", "head"]>, #fsdp.bucket<"norms", ["*norm*"]>]>}' --fsdp-assign-buckets | FileCheck %s --check-prefixes=CHECK
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<named = [#fsdp.bucket<"norms", ["*norm*"]>, #fsdp.bucket<"ends", ["embed.weight", "head", "layers.0"]>]>}' --fsdp-assign-buckets | FileCheck %s --check-prefixes=FIRST
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<named = [#fsdp.bucket<"root", ["layers.1"]>]>}' --fsdp-assign-buckets | FileCheck %s --check-prefixes=ROOT
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<named = [#fsdp.bucket<"layers.0", ["layers.0", "head.*"]>]>}' --fsdp-assign-buckets | FileCheck %s --check-prefixes=MODULE
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<named = [#fsdp.bucket<"norms", ["*nrm*"]>]>}' --fsdp-assign-buckets 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<named = [#fsdp.bucket<"norms", []>]>}' --fsdp-assign-buckets 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<named = [#fsdp.bucket<"metrics", ["head"]>]>}' --fsdp-assign-buckets 2>&1 | FileCheck %s --check-prefix=METRICS
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<named = [#fsdp.bucket<"layers.0", ["head"]>]>}' --fsdp-assign-buckets 2>&1 | FileCheck %s --check-prefix=TAKEN

// NEAR:    the pattern '*nrm*' of the bucket 'norms' matches no parameter and no module that has one; did you mean 'norm'?
// FORM:    expected 'patterns' to be patterns of names, found []
// METRICS: expected another name of the bucket 'metrics', which is that of the metrics
// TAKEN:   would be in the bucket 'layers.0' of its module, which is also the name of one with patterns that do not match it

// A pattern of a module takes all below it; a tied parameter is taken by any of
// its names; the rest is left to the policy; the first bucket counts.
module {
  fsdp.module "layers.0" class "Block"
  fsdp.module "layers.1" class "Block"
  // CHECK:  @embed.weight {{.*}} bucket "ends"
  // FIRST:  @embed.weight {{.*}} bucket "ends"
  // ROOT:   @embed.weight {{.*}} bucket "root"
  // MODULE: @embed.weight {{.*}} bucket "root"
  fsdp.state parameter @embed.weight : tensor<4x8xf32>
  // CHECK:  @layers.0.norm.weight {{.*}} bucket "norms"
  // FIRST:  @layers.0.norm.weight {{.*}} bucket "norms"
  // ROOT:   @layers.0.norm.weight {{.*}} bucket "layers.0"
  // MODULE: @layers.0.norm.weight {{.*}} bucket "layers.0"
  fsdp.state parameter @layers.0.norm.weight : tensor<8xf32>
  // CHECK:  @layers.0.fc.weight {{.*}} bucket "layers.0"
  // FIRST:  @layers.0.fc.weight {{.*}} bucket "ends"
  fsdp.state parameter @layers.0.fc.weight : tensor<8x8xf32>
  // CHECK:  @layers.1.norm.weight {{.*}} bucket "norms"
  // ROOT:   @layers.1.norm.weight {{.*}} bucket "root"
  fsdp.state frozen @layers.1.norm.weight : tensor<8xf32>
  // CHECK:  @other.weight {{.*}} bucket "ends"
  // MODULE: @other.weight {{.*}} bucket "layers.0"
  fsdp.state parameter @other.weight : tensor<4x8xf32> names ["other.weight", "head.weight"]
}
