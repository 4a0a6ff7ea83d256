// RUN: fsdp-opt %s --fsdp-assign-groups --split-input-file --verify-diagnostics | FileCheck %s

// The last group that matches counts, of any name of a tied parameter; frozen ones
// are in groups, too. Characters of patterns are no syntax.

module attributes {fsdp.optimizer = #fsdp.optimizer<groups = [
    #fsdp.param_group<params = ["*.bias", "norm.*"], numbers = {weight_decay = 0.0}>,
    #fsdp.param_group<params = ["head.*"], lr = 0.125>,
    #fsdp.param_group<params = ["a|b:c=1;d", "none|*"], lr = 0.25>]>} {
  // CHECK: @embed.weight : tensor<4xf32>{{$}}
  fsdp.state parameter @embed.weight : tensor<4xf32>
  // CHECK: @norm.weight : tensor<4xf32> bucket "b" group 1{{$}}
  fsdp.state frozen @norm.weight : tensor<4xf32> bucket "b"
  // CHECK: @head.bias : tensor<4xf32> group 2{{$}}
  fsdp.state parameter @head.bias : tensor<4xf32>
  // CHECK: @other.weight : {{.*}} names ["other.weight", "head.weight"] group 2{{$}}
  fsdp.state parameter @other.weight : tensor<4xf32> names ["other.weight", "head.weight"]
  // CHECK: @"a|b:c=1;d" : tensor<4xf32> group 3{{$}}
  fsdp.state parameter @"a|b:c=1;d" : tensor<4xf32>
  // CHECK: @"none|bias" : tensor<4xf32> group 3{{$}}
  fsdp.state parameter @"none|bias" : tensor<4xf32>
  // CHECK: buffer @norm.mean : tensor<4xf32>{{$}}
  fsdp.state buffer @norm.mean : tensor<4xf32>
}

// -----

// Without groups nothing is written.

// CHECK-LABEL: @plain
module @plain {
  // CHECK: @w : tensor<4xf32>{{$}}
  fsdp.state parameter @w : tensor<4xf32>
}

// -----

// expected-error @+1 {{the pattern 'nrm.*' of the optimizer's groups matches no parameter; did you mean 'norm'?}}
module attributes {fsdp.optimizer = #fsdp.optimizer<groups = [#fsdp.param_group<params = ["nrm.*"], lr = 1.0>]>} {
  fsdp.state parameter @norm.weight : tensor<4xf32>
}
