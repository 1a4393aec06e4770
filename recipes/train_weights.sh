#!/bin/sh
# Makes the bundled weights again, one after another: some hours on two CPU cores, or minutes on a GPU.
# A run that was broken off is resumed when the script is started again.
#
#   DATA=folder-with-the-shapes sh recipes/train_weights.sh
#
# START, if given, is an augmented model of 12 epochs to go on from; the bundled ones went on from one that was made apart.
set -eu

train() {
    name=$1
    shift
    purgegate train "$@" --out "runs/$name"
    cp "runs/$name/weights.safetensors" "purgegate/weights/$name.safetensors"
}

modelnet="$DATA/modelnet40_train_delta.npz --test $DATA/modelnet40_test.npz"

train point_mae_tiny.shapes supervised shapes --epochs 16 --no-augment
train point_mae_tiny.modelnet40_plain supervised $modelnet --epochs 8 --no-augment
if [ -z "${START:-}" ]; then
    START=runs/modelnet40_start/weights.safetensors
    purgegate train supervised $modelnet --epochs 12 --pool 2048 --out runs/modelnet40_start
fi
purgegate train supervised $modelnet --epochs 5 --lr 3e-4 --init "$START" --out runs/modelnet40_augmented
augmented=runs/modelnet40_augmented/weights.safetensors
train point_mae_tiny.modelnet40 supervised $modelnet --epochs 3 --lr 3e-4 --warmup 0.3 --no-augment --init $augmented
train point_mae_tiny.modelnet40_joint joint $modelnet --epochs 2 --lr 3e-4 --warmup 0.3 --decoder-depth 1 --init $augmented
train point_mamba_tiny.modelnet40 supervised $modelnet --backbone point_mamba_tiny --epochs 10 --no-augment
