// Buckets that are copied together are the captured program: each member is followed
// to where it comes from, and the sharding can be erased.
//
// DEFINE: %{shard} = world=2 policy=classes classes=Linear reshard=all layout=fsdp2
//
// RUN: fsdp-opt %stages/1-captured.mlir --fsdp-shard-pipeline="%{shard}" --fsdp-schedule-pipeline -o %t.mlir
// RUN: fsdp-opt %t.mlir --fsdp-verify-equivalent=to=%stages/1-captured.mlir -o /dev/null
// RUN: FileCheck %s < %t.mlir
// RUN: fsdp-opt %t.mlir --fsdp-unshard --fsdp-verify-equivalent=to=%stages/1-captured.mlir | FileCheck %s --check-prefix=ERASED
//
// CHECK:     fsdp.pack
// CHECK:     aten._chunk_cat
// CHECK-NOT: reduce_scatter.start {{.*}} of [
//
// ERASED:     fsdp.state parameter @fc1.weight : tensor<13x17xf32> source
// ERASED:     aten.mm
// ERASED-NOT: {{fsdp.pack|_chunk_cat|as_strided|clone}}
//
// Rows from another place, of another length or with another stride are another
// tensor, and so is a gradient that was another member's.
//
// RUN: sed '/aten.as_strided/s/stride = \[126, 1\], storage_offset = 119/stride = [126, 1], storage_offset = 118/' %t.mlir | not fsdp-opt --fsdp-verify-equivalent=to=%stages/1-captured.mlir 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: sed '/fsdp.pack/s/at \[0, 119\]/at [0, 120]/; s/tensor<126xbf16>/tensor<127xbf16>/g; s/tensor<252xbf16>/tensor<254xbf16>/g' %t.mlir | not fsdp-opt --fsdp-verify-equivalent=to=%stages/1-captured.mlir 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: sed 's/aten._chunk_cat(\[\([%%0-9]*\), \([%%0-9]*\)\], dim = 0, num_chunks = 2) : (tensor<5x13xf32>, tensor<5xf32>)/aten._chunk_cat([\2, \1], dim = 0, num_chunks = 2) : (tensor<5xf32>, tensor<5x13xf32>)/' %t.mlir | not fsdp-opt --fsdp-verify-equivalent=to=%stages/1-captured.mlir 2>&1 | FileCheck %s --check-prefix=SWAPPED
//
// PLACE:   differs from what was captured
// SWAPPED: the gradient of 'fc2.{{weight|bias}}' differs from what was captured
// SWAPPED: note: the first op that differs is aten._chunk_cat
