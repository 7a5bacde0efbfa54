// Nothing: the target is there for the headers that it precompiles (CMakeLists.txt).
