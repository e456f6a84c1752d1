package org.apache.spark.memory.counting;

import org.apache.spark.memory.MemoryConsumer;
import org.apache.spark.memory.MemoryMode;
import org.apache.spark.memory.TaskMemoryManager;

/** The off-heap execution memory of one task attempt, for its native code. */
public final class NativeTaskMemory {
  private final TaskMemoryManager manager;
  private final NativeConsumer consumer;

  public NativeTaskMemory(TaskMemoryManager manager) {
    this.manager = manager;
    this.consumer = new NativeConsumer(manager);
  }

  /** Returns the bytes granted, which may be fewer. May park with no time limit. */
  public long acquire(long bytes) {
    return manager.acquireExecutionMemory(bytes, consumer);
  }

  public void release(long bytes) {
    manager.releaseExecutionMemory(bytes, consumer);
  }

  /** Bytes that the attempt has, native code and JVM together. */
  public long balance() {
    return manager.getMemoryConsumptionForThisTask();
  }

  /**
   * Stands for native code as a whole. Its `used` stays at 0, so that Spark never tells it to
   * spill: DataFusion spills when it is refused, and does not spill for others.
   */
  private static final class NativeConsumer extends MemoryConsumer {
    NativeConsumer(TaskMemoryManager manager) {
      super(manager, manager.pageSizeBytes(), MemoryMode.OFF_HEAP);
    }

    @Override
    public long spill(long size, MemoryConsumer trigger) {
      return 0;
    }
  }
}
