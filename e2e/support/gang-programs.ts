import { existsSync } from 'node:fs';

/** Why ranks in Python cannot be tried here, null: they can. */
export const pythonMissing = existsSync('/usr/bin/python3') ? null : 'there is no /usr/bin/python3';

/** Why torch.distributed cannot be tried here, null: it can. Sandboxes see the system's packages, not a person's. */
export const torchMissing = existsSync('/usr/lib/python3/dist-packages/torch/distributed')
  ? null
  : 'python3-torch of Debian is not installed';

/** The same of MPI. */
export const mpiMissing =
  existsSync('/usr/bin/mpirun.openmpi') && existsSync('/usr/bin/mpicc.openmpi')
    ? null
    : 'openmpi-bin and libopenmpi-dev of Debian are not installed';

/** Every process of it says who it is and what all of them come to together. */
export const mpiProgram = `
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, all;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int own = (rank + 1) * (rank + 1);
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("process %d of %d: %d\\n", rank, size, all);
    MPI_Finalize();
    return 0;
}
`;
