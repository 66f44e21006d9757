"""Recovery: speed of the certificate, quality of the estimates, real data. One thread for everything, also in BLAS."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")
