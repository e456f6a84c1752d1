package org.apache.spark.memory.counting;

import java.lang.management.LockInfo;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.SparkConf;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.memory.UnifiedMemoryManager;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.mutable.HashMap;

/** The memory management of an executor, off-heap and without the executor, for tests. */
public final class OffHeapExecutor {
  private final UnifiedMemoryManager manager;

  /** All of the bytes are for execution, none for storage. */
  public OffHeapExecutor(long bytes) {
    SparkConf conf = new SparkConf(false)
        .set("spark.memory.offHeap.enabled", "true")
        .set("spark.memory.offHeap.size", Long.toString(bytes))
        .set("spark.memory.storageFraction", "0");
    long heap = 64L << 20;
    // The constructor, unlike UnifiedMemoryManager.apply, asks for no heap of 450 MB.
    manager = new UnifiedMemoryManager(conf, heap, 0, 1);
  }

  public TaskMemoryManager task(long attemptId) {
    return new TaskMemoryManager(manager, attemptId);
  }

  /** Ids and balances of the active tasks, in turn. */
  public long[] activeTasks() throws ReflectiveOperationException {
    // The lock that MemoryManager gives its pools is itself.
    synchronized (manager) {
      Object pool = field(MemoryManager.class, "offHeapExecutionMemoryPool").get(manager);
      HashMap<?, ?> tasks = (HashMap<?, ?>) field(pool.getClass(), "memoryForTask").get(pool);
      long[] figures = new long[2 * tasks.size()];
      int next = 0;
      for (Iterator<?> entries = tasks.iterator(); entries.hasNext(); ) {
        Tuple2<?, ?> entry = (Tuple2<?, ?>) entries.next();
        figures[next++] = (Long) entry._1();
        figures[next++] = (Long) entry._2();
      }
      return figures;
    }
  }

  /** How many threads are parked in an acquire. */
  public int parked() {
    return parkedThreads().size();
  }

  /** Interrupts every thread that is parked in an acquire, as a killed task's is. */
  public void interruptParked() {
    Set<Long> ids = new HashSet<>(parkedThreads());
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (ids.contains(thread.getId())) {
        thread.interrupt();
      }
    }
  }

  private List<Long> parkedThreads() {
    List<Long> ids = new ArrayList<>();
    for (ThreadInfo thread : ManagementFactory.getThreadMXBean().dumpAllThreads(false, false)) {
      // A thread that has ended meanwhile has no information.
      LockInfo lock = thread == null ? null : thread.getLockInfo();
      if (lock != null
          && thread.getThreadState() == Thread.State.WAITING
          && lock.getIdentityHashCode() == System.identityHashCode(manager)) {
        ids.add(thread.getThreadId());
      }
    }
    return ids;
  }

  private static Field field(Class<?> owner, String name) throws ReflectiveOperationException {
    Field field = owner.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }
}
