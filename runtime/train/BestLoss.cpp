//===- BestLoss.cpp - Whether validation finds a run better ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/BestLoss.h"

#include "runtime/comm/SharedWork.h"
#include "support/Error.h"

using namespace fsdp;

BestLoss::BestLoss(Session &session, const std::string &path)
    : folder(path), isWriter(session.rank() == 0 && !path.empty()) {
  if (path.empty())
    return;
  std::vector<std::string> texts = shareWork(
      session.fabric(), "validations",
      [&] {
        return isWriter ? printValidations(readValidations(folder))
                        : std::string();
      },
      [](size_t, const std::string &message) {
        throw Error(ErrorId::CheckpointDamaged, message);
      });
  all = parseValidations(texts.front(), path);
  // This run finds later ones itself.
  std::erase_if(all, [&](const Validated &each) {
    return each.step > session.stepsDone();
  });
}

bool BestLoss::add(uint64_t steps, double loss) {
  // A run that continues may repeat its checkpoint's.
  std::erase_if(all, [&](const Validated &each) { return each.step >= steps; });
  all.push_back({steps, loss});
  if (isWriter)
    writeValidations(folder, all);
  return best() == &all.back();
}

uint64_t BestLoss::countWithoutGain() const {
  const Validated *found = best();
  return found ? static_cast<uint64_t>(&all.back() - found) : all.size();
}
