//===- ForeignDataKeys.cpp - Other tools' keys of rows and batches --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"

using namespace fsdp;
using namespace fsdp::foreign;
using enum ForeignKey::Action;

namespace {
constexpr std::string_view data = "fsdp-run --data names the data";
constexpr std::string_view batch = "the batch size is the exported one";
constexpr std::string_view named = "fsdp-run --data, or data: in this file, "
                                   "names what is read";
constexpr std::string_view validation = "eval: {data: ...} in this file names "
                                        "what to validate on";
constexpr std::string_view order =
    "rows are read in the order of the files, or with data: {shuffle: true} in "
    "a random one";
constexpr std::string_view labels =
    "the rows' labels say which tokens are trained on: fsdp_opt.data writes "
    "rows, -100 leaves a token out (docs/Data.md)";
constexpr std::string_view packing =
    "rows are read as the data's files hold them: fsdp_opt.data.write_rows(…, "
    "position_ids=True) packs documents into rows; export the model with the "
    "inputs input_ids, labels and position_ids and without attention_mask, so "
    "that its attention stays within a document (docs/Data.md)";
constexpr std::string_view comparedRows =
    "nothing: compared with the rows that the model was exported with; a "
    "difference is a warning";
constexpr std::string_view comparedTokens =
    "nothing: compared with the exported tokens of a row; a difference is a "
    "warning";

constexpr ForeignKey dataKeys[] = {
    taken(OfTrainer, "", "micro_batch_size per_device_train_batch_size", "",
          readRows, comparedRows),
    taken(OfTrainer, "",
          "sequence_len max_seq_length max_length block_size cutoff_len "
          "model_max_length",
          "", readTokens, comparedTokens),
    told(Axolotl, Changes, "", batch, "batch_size"),
    told(OfTrainer, Changes, "", batch, "auto_find_batch_size"),
    told(Axolotl, Changes, "",
         "a row has the tokens that the model was exported with",
         "max_packed_sequence_len"),
    told(OfTrainer, Ignored, "", batch,
         "eval_batch_size per_device_eval_batch_size"),
    told(OfTrainer, Changes, "", named,
         "datasets dataset dataset_dir pretraining_dataset dataset_name "
         "train_file dataset_mixture"),
    told(OfTrainer, Changes, "", validation,
         "val_set_size val_size test_datasets eval_dataset validation_file "
         "do_eval_on"),
    told(OfTrainer, Changes, "", order,
         "group_by_length curriculum_sampling train_sampling_strategy "
         "disable_shuffling"),
    told(OfTrainer, Changes, "", packing,
         "sample_packing packing neat_packing"),
    told(Axolotl | LlamaFactory | Trl, Changes, "", labels,
         "train_on_inputs train_on_prompt mask_history assistant_only_loss "
         "completion_only_loss roles_to_train train_on_eos efficient_eos "
         "train_on_eot"),
    told(
        OfTrainer, Ignored, "", data,
        "chat_template dataset_prepared_path dataset_processes "
        "shuffle_merged_datasets eval_sample_packing pad_to_sequence_len "
        "dataset_keep_in_memory dataset_num_proc dataset_shard_num "
        "dataset_shard_idx dataset_exact_deduplication skip_prepare_dataset "
        "pretraining_sample_concatenation streaming "
        "streaming_multipack_buffer_size push_dataset_to_hub "
        "dataset_config_name dataset_config dataset_text_field "
        "dataset_train_split dataset_test_split dataset_kwargs "
        "dataset_streaming max_train_samples max_eval_samples "
        "preprocessing_num_workers overwrite_cache excess_length_strategy "
        "min_sample_len sample_packing_group_size sample_packing_bin_size "
        "sample_packing_sequentially sample_packing_mp_start_method "
        "sample_packing_drop_attention_mask multipack_real_batches "
        "multipack_attn pretrain_multipack_attn pretrain_multipack_buffer_size "
        "pad_to_multiple_of padding_free batch_flattening packing_strategy "
        "eval_packing "
        "default_system_message chat_template_jinja chat_template_path "
        "chat_template_kwargs eot_tokens shuffle_before_merging_datasets "
        "remove_unused_columns dataloader_num_workers dataloader_pin_memory "
        "dataloader_prefetch_factor dataloader_persistent_workers "
        "dataloader_drop_last length_column_name "
        "include_num_input_tokens_seen include_tokens_per_second "
        "include_effective_tokens_per_second eval_max_new_tokens "
        "eval_causal_lm_metrics predict_with_generate gc_steps template "
        "media_dir buffer_size mix_strategy interleave_probs "
        "preprocessing_batch_size max_samples eval_num_beams "
        "ignore_pad_token_for_loss tokenized_path data_shared_file_system "
        "default_system enable_thinking tool_format image_max_pixels "
        "image_min_pixels image_do_pan_and_scan crop_to_patches "
        "video_max_pixels video_min_pixels video_fps video_maxlen "
        "use_audio_in_video audio_sampling_rate max_prompt_length "
        "truncation_mode label_pad_token_id padding_value tools_column "
        "sample_packing_eff_est "
        "sample_packing_seq_len_multiplier total_num_tokens "
        "shuffle_dataset "
        "process_reward_note data_collator"),
};
} // namespace

std::span<const ForeignKey> foreign::getDataKeys() { return dataKeys; }
