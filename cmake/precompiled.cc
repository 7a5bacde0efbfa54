// Empty: the target exists only for the headers that it precompiles (CMakeLists.txt).
