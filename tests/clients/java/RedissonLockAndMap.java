import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RMapCache;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.IntegerCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.config.Config;

/** Redisson: locks, plain, fair and for reading and writing; a map, and one whose entries expire; a semaphore. */
class RedissonLockAndMap {
    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(what);
    }

    interface Step {
        void run() throws Exception;
    }

    /** Runs a step in a thread of its own: a lock belongs to a thread. */
    static void elsewhere(Step step) throws Exception {
        Throwable[] failure = new Throwable[1];
        Thread thread = new Thread(() -> {
            try {
                step.run();
            } catch (Throwable error) {
                failure[0] = error;
            }
        });
        thread.start();
        thread.join();
        if (failure[0] != null) throw new AssertionError(failure[0]);
    }

    static void lock(RLock lock) throws Exception {
        lock.lock(60, TimeUnit.SECONDS);
        check(lock.isLocked() && lock.isHeldByCurrentThread(), "it is held");
        check(lock.tryLock(), "a thread takes its lock again");
        check(lock.getHoldCount() == 2, lock.getHoldCount());
        elsewhere(() -> check(!lock.tryLock(), "another thread does not get it"));
        lock.unlock();
        check(lock.isLocked(), "given back once of twice");
        lock.unlock();
        check(!lock.isLocked(), "given back");
        elsewhere(() -> {
            check(lock.tryLock(0, 60, TimeUnit.SECONDS), "another thread gets it");
            lock.unlock();
        });
    }

    static void contended(RLock lock) throws Exception {
        int[] counted = {0};
        AtomicInteger failures = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(4);
        for (int n = 0; n < 4; n++) {
            new Thread(() -> {
                try {
                    for (int round = 0; round < 20; round++) {
                        lock.lock();
                        int seen = counted[0];
                        Thread.sleep(1);
                        counted[0] = seen + 1;
                        lock.unlock();
                    }
                } catch (Throwable error) {
                    error.printStackTrace();
                    failures.incrementAndGet();
                }
                done.countDown();
            }).start();
        }
        check(done.await(60, TimeUnit.SECONDS), "all had their turns");
        check(failures.get() == 0 && counted[0] == 80, counted[0]);
    }

    static void readAndWrite(RReadWriteLock lock) throws Exception {
        lock.readLock().lock();
        elsewhere(() -> {
            check(lock.readLock().tryLock(), "two may read");
            lock.readLock().unlock();
            check(!lock.writeLock().tryLock(), "none writes while one reads");
        });
        lock.readLock().unlock();
        lock.writeLock().lock();
        elsewhere(() -> check(!lock.readLock().tryLock(), "none reads while one writes"));
        lock.writeLock().unlock();
    }

    static void map(RMap<String, Integer> map) {
        check(map.put("a", 1) == null && map.put("a", 2) == 1, "put tells what was there");
        check(map.putIfAbsent("a", 3) == 2 && map.putIfAbsent("b", 3) == null, "put if absent");
        check(map.replace("a", 2, 4) && !map.replace("a", 2, 5), "replace if equal");
        check(map.addAndGet("a", 6) == 10, map.get("a"));
        check(map.fastPut("c", 7) && !map.fastPut("c", 8), "fast put");
        check(map.getAll(Set.of("a", "c")).equals(Map.of("a", 10, "c", 8)), "get all");
        check(map.size() == 3 && map.containsKey("b") && map.containsValue(8), map.readAllMap());
        check(!map.remove("b", 4) && map.remove("b", 3) && map.remove("c") == 8, "remove");
        check(map.readAllKeySet().equals(Set.of("a")), map.readAllKeySet());
    }

    static void expiring(RMapCache<String, Integer> map) throws Exception {
        map.put("stays", 1);
        map.put("goes", 2, 100, TimeUnit.MILLISECONDS);
        check(map.putIfAbsent("stays", 3, 1, TimeUnit.HOURS) == 1, "put if absent");
        for (int tries = 0; map.get("goes") != null; tries++) {
            check(tries < 1000, "it expires");
            Thread.sleep(10);
        }
        check(map.get("stays") == 1 && map.remainTimeToLive("stays") == -1, "the other stays");
    }

    static void all(RedissonClient client) throws Exception {
        lock(client.getLock("lock"));
        lock(client.getFairLock("fair"));
        contended(client.getLock("contended"));
        contended(client.getFairLock("contended fairly"));
        readAndWrite(client.getReadWriteLock("read and write"));
        map(client.getMap("map", new CompositeCodec(StringCodec.INSTANCE, IntegerCodec.INSTANCE)));
        expiring(client.getMapCache("expiring"));
        RSemaphore semaphore = client.getSemaphore("semaphore");
        check(semaphore.trySetPermits(2) && semaphore.tryAcquire(2) && !semaphore.tryAcquire(), "two permits");
        semaphore.release();
        check(semaphore.availablePermits() == 1, semaphore.availablePermits());
    }

    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + System.getenv("INDELIBLE_PORT"));
        RedissonClient client = Redisson.create(config);
        int status = 1;
        try {
            all(client);
            System.out.println("redisson " + Redisson.class.getPackage().getImplementationVersion() + ": passed");
            status = 0;
        } catch (Throwable failure) {
            failure.printStackTrace();
        }
        client.shutdown();
        // Threads of its own may still wait.
        System.exit(status);
    }
}
