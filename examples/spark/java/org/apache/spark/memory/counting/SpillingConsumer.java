package org.apache.spark.memory.counting;

import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import org.apache.spark.memory.MemoryConsumer;
import org.apache.spark.memory.MemoryMode;
import org.apache.spark.memory.TaskMemoryManager;

/** A consumer on the JVM side that gives back so many bytes each time it is told to spill. */
public final class SpillingConsumer extends MemoryConsumer {
  /** For `bytesPerSpill`: spilling fails. */
  public static final long FAILS = -1;

  /** For `bytesPerSpill`: the task is killed while spilling. */
  public static final long IS_KILLED = -2;

  private final long bytesPerSpill;
  private volatile long spills;

  public SpillingConsumer(TaskMemoryManager manager, long bytesPerSpill) {
    super(manager, manager.pageSizeBytes(), MemoryMode.OFF_HEAP);
    this.bytesPerSpill = bytesPerSpill;
  }

  /** How often it was told to spill. */
  public long spills() {
    return spills;
  }

  @Override
  public long spill(long size, MemoryConsumer trigger) throws IOException {
    spills++;
    if (bytesPerSpill == FAILS) {
      throw new IOException("disk full");
    }
    if (bytesPerSpill == IS_KILLED) {
      throw new ClosedByInterruptException();
    }
    long freed = Math.min(getUsed(), bytesPerSpill);
    if (freed > 0) {
      freeMemory(freed);
    }
    return freed;
  }
}
