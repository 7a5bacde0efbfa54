"""Prints what MPITRAMPOLINE_LIB has to be for JAX's CPU collectives to run over Tutti."""

from . import LIBRARY

if __name__ == "__main__":
    print(LIBRARY)
