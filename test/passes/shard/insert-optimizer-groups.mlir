// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = adamw, lr = 0.5, numbers = {weight_decay = 0.25}, groups = [#fsdp.param_group<params = ["*.bias", "norm.*"], numbers = {weight_decay = 0.0}>, #fsdp.param_group<params = ["head.*"], lr = 0.125, numbers = {beta1 = 0.5}>]>}' --fsdp-assign-groups --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,ADAMW
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, lr = 0.5, numbers = {momentum = 0.5}, groups = [#fsdp.param_group<params = ["*.bias"], numbers = {momentum = 0.0}>, #fsdp.param_group<params = ["head.*"], numbers = {nesterov = 1.0}>]>}' --fsdp-assign-groups --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,SGD
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, lr = 0.5, groups = [#fsdp.param_group<params = ["*"], lr = 0.25>]>}' --fsdp-assign-groups --fsdp-insert-optimizer | FileCheck %s --check-prefix=ALL
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, groups = [#fsdp.param_group<params = ["embed.*"], lr = 0.25>, #fsdp.param_group<params = ["out.*"], lr = 0.25>]>}' --fsdp-assign-groups --fsdp-insert-optimizer | FileCheck %s --check-prefix=EQUAL
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, groups = [#fsdp.param_group<params = ["*"], lr = 0.25>, #fsdp.param_group<params = ["out.*"], lr = 0.75>]>}' --fsdp-assign-groups --fsdp-insert-optimizer | FileCheck %s --check-prefix=REFINED

// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<groups = [#fsdp.param_group<params = ["haed.*"], lr = 1.0>]>}' --fsdp-assign-groups --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<groups = [#fsdp.param_group<params = ["decoder.layers.*"], lr = 1.0>]>}' --fsdp-assign-groups --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<groups = [#fsdp.param_group<params = ["embed.*"], lr = 0.25>, #fsdp.param_group<params = ["out.*"], lr = 0.75>]>}' --fsdp-assign-groups --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=TIED
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<groups = [#fsdp.param_group<params = [], lr = 1.0>]>}' --fsdp-assign-groups --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<groups = [#fsdp.param_group<params = ["head.*"], decay = 1.0>]>}' --fsdp-assign-groups --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=SETTING
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<groups = [#fsdp.param_group<params = ["head.*"], lr = fast>]>}' --fsdp-assign-groups --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<groups = [#fsdp.param_group<params = ["head.*"], lr = 1.0>]>}' --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: sed 's/@norm.weight : tensor<[^>]*>/& group 2/' %s > %t.mlir
// RUN: not fsdp-opt %t.mlir --fsdp-annotate='with={optimizer<groups = [#fsdp.param_group<params = ["head.*"], lr = 1.0>]>}' --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=COUNT

// ORDER:   has groups of parameters, but no parameter is in one; run fsdp-assign-groups first
// COUNT:   'fsdp.state' op is in group 2 of the optimizer, which has 1
// NEAR:    the pattern 'haed.*' of the optimizer's groups matches no parameter; did you mean 'head'?
// NONE:    the pattern 'decoder.layers.*' of the optimizer's groups matches no parameter; there are embed.weight, out.weight, head.weight, head.bias, norm.weight
// TIED:    is in two groups of the optimizer that differ: 'embed.*' matches 'embed.weight' and 'out.*' matches 'out.weight', which are one tensor; let one group match both names
// EMPTY:   expected 'params' to be patterns of names, found []
// SETTING: duplicate or unknown struct parameter name: decay
// VALUE:   expected floating point literal

// One op for each group; the last group that matches counts and the settings of
// the others do not, so that head.bias decays. Groups whose rate is the base's
// share its state.

// ADAMW:      fsdp.state step @"optimizer/step"
// ADAMW-NEXT: fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 5.000000e-01 : f32
// ADAMW-NEXT: fsdp.state learning_rate @"optimizer/lr/2" : tensor<f32> init 1.250000e-01 : f32
// SGD:        fsdp.state optimizer @"embed.weight/momentum_buffer"
// SGD-NEXT:   fsdp.state optimizer @"head.weight/momentum_buffer"
// SGD-NEXT:   fsdp.state optimizer @"head.bias/momentum_buffer"
// SGD-NEXT:   fsdp.state optimizer @"norm.weight/momentum_buffer"
// SGD-NEXT:   fsdp.state learning_rate @"optimizer/lr" :
// SGD-NOT:    fsdp.state

// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:   %[[EMBED:[^:]+]]: tensor<4xf32> {fsdp.state = @embed.weight}, %[[HW:[^:]+]]: tensor<4xf32> {fsdp.state = @head.weight}, %[[HB:[^:]+]]: tensor<4xf32> {fsdp.state = @head.bias}, %[[NORM:[^:]+]]: tensor<4xf32> {fsdp.state = @norm.weight}
// ADAMW-SAME:   %[[LR:[^:, ]+]]: tensor<f32> {fsdp.state = @"optimizer/lr"}, %[[LR2:[^:, ]+]]: tensor<f32> {fsdp.state = @"optimizer/lr/2"}
// ADAMW:        fsdp.update adamw params(%[[EMBED]]) {{.*}} lr %[[LR]] betas(9.000000e-01, {{.*}} weight_decay 2.500000e-01
// ADAMW:        fsdp.update adamw params(%[[HW]], %[[HB]]) {{.*}} lr %[[LR2]] betas(5.000000e-01, {{.*}} weight_decay 2.500000e-01
// ADAMW:        fsdp.update adamw params(%[[NORM]]) {{.*}} lr %[[LR]] betas(9.000000e-01, {{.*}} weight_decay 0.000000e+00
// SGD:          fsdp.update sgd params(%[[EMBED]], %[[NORM]]) {{.*}} momentum 5.000000e-01 weight_decay 0.000000e+00 :
// SGD:          fsdp.update sgd params(%[[HW]], %[[HB]]) {{.*}} momentum 5.000000e-01 weight_decay 0.000000e+00 nesterov

// The base's rate stays a state, which metrics report, but no argument.
// ALL:      fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 5.000000e-01 : f32
// ALL-NEXT: fsdp.state learning_rate @"optimizer/lr/1" : tensor<f32> init 2.500000e-01 : f32
// ALL:      func.func @"train/step"
// ALL-NOT:  @"optimizer/lr"}
// ALL-SAME: {fsdp.state = @"optimizer/lr/1"}

// Groups that agree may both match a tied parameter.
// EQUAL: fsdp.update sgd params(%{{[^,)]+}})
// EQUAL: fsdp.update sgd params(%{{[^,)]+}}, %{{[^,)]+}}, %{{[^,)]+}})

// A general rule and one that refines it for one of two names do not contradict
// each other.
// REFINED: fsdp.state learning_rate @"optimizer/lr/2" : tensor<f32> init 7.500000e-01 : f32
// REFINED: %[[E:[^:(]+]]: tensor<4xf32> {fsdp.state = @embed.weight}
// REFINED-SAME: %[[LR2:[^:, ]+]]: tensor<f32> {fsdp.state = @"optimizer/lr/2"}
// REFINED: fsdp.update sgd params(%[[E]]) {{.*}} lr %[[LR2]]

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @embed.weight : tensor<4xf32> names ["embed.weight", "out.weight"]
  fsdp.state parameter @head.weight : tensor<4xf32>
  fsdp.state parameter @head.bias : tensor<4xf32>
  fsdp.state parameter @norm.weight : tensor<4xf32>
  func.func @"train/step"(%e: tensor<4xf32> {fsdp.state = @embed.weight}, %w: tensor<4xf32> {fsdp.state = @head.weight},
                          %b: tensor<4xf32> {fsdp.state = @head.bias}, %n: tensor<4xf32> {fsdp.state = @norm.weight},
                          %x: tensor<f32> {fsdp.input = "x"}, %g: tensor<4xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @embed.weight}, tensor<4xf32> {fsdp.gradient = @head.weight},
          tensor<4xf32> {fsdp.gradient = @head.bias}, tensor<4xf32> {fsdp.gradient = @norm.weight}) {
    return %x, %g, %g, %g, %g : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}
