#!/bin/sh
# Stands for Slurm's commands where there is none; which one, says the name by which it is called. sbatch runs the script
# that it is given for each task of its array, one after the other, on this machine; srun runs its command; sacct tells
# how tasks ended. SLURM_STATES is the file where that is written.
case $(basename "$0") in
sbatch)
  id=$$
  last=$(sed -n 's/^#SBATCH --array=0-\([0-9]*\).*/\1/p' "$1")
  cp "$1" "$SLURM_STATES.$id.sh"
  touch "$SLURM_STATES"
  export SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_JOB_NODELIST=here
  (
    if [ -z "$last" ]; then
      SLURM_JOB_ID=$id sh "$SLURM_STATES.$id.sh" && state=COMPLETED || state=FAILED
      echo "$id|$state|here" >> "$SLURM_STATES"
    else
      for task in $(seq 0 "$last"); do
        SLURM_JOB_ID=$((id + task)) SLURM_ARRAY_JOB_ID=$id SLURM_ARRAY_TASK_ID=$task sh "$SLURM_STATES.$id.sh" \
          && state=COMPLETED || state=FAILED
        echo "${id}_$task|$state|here" >> "$SLURM_STATES"
      done
    fi
  ) > /dev/null 2>&1 &
  echo "Submitted batch job $id"
  ;;
srun)
  while [ "${1#--}" != "$1" ]; do
    case $1 in --output | --error) shift ;; esac
    shift
  done
  exec "$@"
  ;;
sacct)
  echo "JobID|State|NodeList"
  cat "$SLURM_STATES"
  ;;
esac
