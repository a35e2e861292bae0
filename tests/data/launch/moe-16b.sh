#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A launch script as trainings have it, made up for tests of dovetail import: 16 billion parameters, 3 of them for a token.
#SBATCH --job-name=moe-16b
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8

export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-4}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=$(hostname)
WORLD_SIZE=$((GPUS_PER_NODE * NNODES))

TP=${TP:-2}
PP=2
EP=$(( WORLD_SIZE / PP / 2 ))
MICRO=1
GLOBAL=$((MICRO * WORLD_SIZE * 8))
WITH_FP8=0

MODEL_ARGS=(
  --num-layers 28          # the first of them dense
  --hidden-size 2048
  --ffn-hidden-size 10944
  --num-attention-heads 16
  --swiglu --normalization RMSNorm
  --position-embedding-type rope
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --vocab-size 102400
  --seq-length 4096 --max-position-embeddings 4096
)

MOE_ARGS="--num-experts 64 --moe-router-topk 6 \
  --moe-ffn-hidden-size 1408 --moe-shared-expert-intermediate-size 2816 \
  --moe-layer-freq ([0]*1+[1]*27) \
  --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 \
  --moe-token-dispatcher-type alltoall --moe-grouped-gemm --moe-permute-fusion"

PARALLEL_ARGS=(
    --tensor-model-parallel-size "$TP"
    --pipeline-model-parallel-size ${PP}
    --num-virtual-stages-per-pipeline-rank 7
    --expert-model-parallel-size "${EP}"
    --expert-tensor-parallel-size=1
    --sequence-parallel
    --use-distributed-optimizer
    --overlap-grad-reduce --overlap-param-gather
)

TRAINING_ARGS=(--bf16 --micro-batch-size $MICRO --global-batch-size $GLOBAL --lr 3e-4 --min-lr 3e-5)
TRAINING_ARGS+=(--attention-dropout 0.0 --hidden-dropout 0.0 --clip-grad 1.0)
if [ "$WITH_FP8" -eq 1 ]; then
  TRAINING_ARGS+=(--fp8-format e4m3 --fp8-recipe blockwise)
fi
if [[ $TP -gt 1 ]]; then
  TRAINING_ARGS+=(--recompute-granularity selective --recompute-modules layernorm moe_act)
fi

DATA_ARGS="--data-path ${DATA_PATH} --split 949,50,1 --tokenizer-type HuggingFaceTokenizer"
cat <<EOT
--num-layers 1 is no argument here
EOT

torchrun --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NNODES" --node_rank "$NODE_RANK" \
  --master_addr "$MASTER_ADDR" pretrain_gpt.py \
  "${MODEL_ARGS[@]}" ${MOE_ARGS} "${PARALLEL_ARGS[@]}" "${TRAINING_ARGS[@]}" \
  $DATA_ARGS --log-interval 10 --save-interval 500 --eval-iters 10 2>&1 | tee "log_${NODE_RANK}.txt"
