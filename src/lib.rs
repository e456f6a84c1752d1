//! Who asks an Apache DataFusion `MemoryPool` for memory, how often, for what sizes and at what cost.
