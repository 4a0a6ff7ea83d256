// RUN: fsdp-opt %s --fsdp-set-seed | FileCheck %s

module attributes {fsdp.seed = 7 : i64} {
  // CHECK: fsdp.state parameter @w : tensor<2xi64>{{$}}
  fsdp.state parameter @w : tensor<2xi64>
  // CHECK: fsdp.state random @"random/state" : tensor<2xi64> init dense<[7, 0]> : tensor<2xi64>
  fsdp.state random @"random/state" : tensor<2xi64>
}
