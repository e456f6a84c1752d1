package org.apache.spark.memory.counting;

import org.apache.spark.memory.TaskMemoryManager;

/** Native code as a plugin calls it: from a thread of the JVM, with Spark's object. For tests. */
public final class TaskThread {
  private TaskThread() {}

  /** Reserves bytes and gives them back. Returns what the attempt had meanwhile. */
  private static native long runPlan(TaskMemoryManager manager, long bytes);

  /** Calls native code from a new thread and waits for it. */
  public static long run(TaskMemoryManager manager, long bytes) throws InterruptedException {
    long[] answer = new long[1];
    Thread thread = new Thread(() -> answer[0] = runPlan(manager, bytes));
    thread.start();
    thread.join();
    return answer[0];
  }
}
