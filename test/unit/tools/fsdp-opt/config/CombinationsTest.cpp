//===- CombinationsTest.cpp - What does not go together -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Combinations.h"

#include "test/unit/tools/fsdp-opt/config/ConfigText.h"
#include "test/unit/tools/fsdp-opt/config/FeatureTexts.h"

using namespace fsdp;
using namespace fsdp::test;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

namespace {

/// The longest part of a relation's text that no feature's words are in.
std::string getOwnText(const Relation &relation) {
  std::string longest;
  const std::string &text = relation.text;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('{', begin), text.size());
    bool isWords = end + 2 < text.size() && text[end + 2] == '}';
    size_t stop =
        isWords ? end : std::min(text.find('{', end + 1), text.size());
    if (stop - begin > longest.size())
      longest = text.substr(begin, stop - begin);
    begin = isWords ? end + 3 : stop;
  }
  return longest;
}

TEST(Combinations, EachRelationRefusesItsFeaturesTogetherAndNoFewer) {
  for (const Relation &relation : getRelations()) {
    ConfigYaml all, fewer;
    for (Feature feature : relation.features) {
      bool isLast = feature == relation.features.back();
      if (!isLast || relation.kind == Relation::Kind::Conflict)
        all.add(feature);
      if (!isLast || relation.kind == Relation::Kind::Requires)
        fewer.add(feature);
    }
    SCOPED_TRACE(all.print());
    EXPECT_THAT(refusal(all.print()), HasSubstr(getOwnText(relation)));
    EXPECT_THAT(refusal(all.print()),
                HasSubstr(std::string(getErrorInfo(relation.id).id)));
    EXPECT_THAT(refusal(fewer.print()), Not(HasSubstr(getOwnText(relation))));
  }
}

TEST(Combinations, FeaturesAreAskedForByWhatTheyAreCalled) {
  for (size_t i = 0; i < getFeatures().size(); ++i) {
    auto feature = static_cast<Feature>(i);
    if (feature == Feature::Float8Tensorwise)
      continue; // a recipe of what is absent
    EXPECT_FALSE(ask(parse("mesh: {dp_shard: 2}").config, feature).is)
        << getInfo(feature).name;
    ConfigYaml yaml;
    yaml.add(feature);
    // What needs another feature does not parse alone.
    for (const Relation &relation : getRelations())
      if (relation.kind == Relation::Kind::Requires &&
          relation.features.front() == feature)
        yaml.add(relation.features.back());
    EXPECT_TRUE(ask(parse(yaml.print()).config, feature).is) << yaml.print();
  }
}

TEST(Combinations, MessagesStandAtTheKeyAndNameItAsItIsWritten) {
  EXPECT_THAT(refusal("mesh: {dp_shard: 2, cp: 2}\n"
                      "fsdp_config:\n"
                      "  reduce_ignored_params: false"),
              StartsWith("E045 fsdp.yaml:3:26: 'reduce_ignored_params: false' "
                         "is not supported with mesh: {cp: 2}, whose ranks "
                         "have summands of one gradient"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\ndevice: cuda\n"
                      "optimizer: {state_dtype: int8}"),
              IsEmpty());
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\ndevice: cuda\n"
                      "fsdp_config:\n"
                      "  overrides: [{modules: root, prefetch: 1},\n"
                      "    {modules: root, reduce_wire_dtype: float8}]"),
              IsEmpty());
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\nschedule: inductor\n"
                      "fsdp_config: {buckets: {a: w}}"),
              StartsWith("E044 fsdp.yaml:3:24: schedule: inductor decides what "
                         "'buckets' says"));
}

TEST(Combinations, AMistakeIsNotToldAgainInOtherWords) {
  std::string told = refusal("mesh: {dp_shard: 2, tp: x}\nfloat8: {}");
  EXPECT_THAT(told, HasSubstr("'tp'"));
  EXPECT_THAT(told, Not(HasSubstr("float8")));
}

TEST(Combinations, ADeviceLacksWhatItsRowDoesNotSay) {
  EXPECT_TRUE(findDevice("cpu").ordersSums);
  EXPECT_EQ(findDevice("cuda:sm_90").name, "cuda");
  const Device &other = findDevice("cudax");
  EXPECT_TRUE(askDevice(other, Feature::SumsInNoOrder)->is);
  EXPECT_EQ(other.kernels, KernelTable::None);
  EXPECT_FALSE(askDevice(other, Feature::Grains));
}

} // namespace
