import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import redis.clients.jedis.Jedis;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * YCSB's operations on a Redis server: a record is a hash, and a sorted set indexes the keys for scans (as in
 * YCSB's own Redis binding, which is not published). One connection a client thread.
 */
public final class RedisBinding extends DB {
  private static final String INDEX = "_indices";
  private Jedis jedis;

  @Override
  public void init() throws DBException {
    String host = getProperties().getProperty("redis.host", "127.0.0.1");
    int port = Integer.parseInt(getProperties().getProperty("redis.port", "6379"));
    jedis = new Jedis(host, port, 60_000);
    jedis.connect();
  }

  @Override
  public void cleanup() {
    jedis.close();
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    if (fields == null) {
      StringByteIterator.putAllAsByteIterators(result, jedis.hgetAll(key));
    } else {
      String[] names = fields.toArray(new String[0]);
      List<String> values = jedis.hmget(key, names);
      for (int i = 0; i < names.length; i++) {
        if (values.get(i) != null) {
          result.put(names[i], new StringByteIterator(values.get(i)));
        }
      }
    }
    return result.isEmpty() ? Status.NOT_FOUND : Status.OK;
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    String reply = jedis.hmset(key, StringByteIterator.getStringMap(values));
    jedis.zadd(INDEX, key.hashCode(), key);
    return reply.equals("OK") ? Status.OK : Status.ERROR;
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    String reply = jedis.hmset(key, StringByteIterator.getStringMap(values));
    return reply.equals("OK") ? Status.OK : Status.ERROR;
  }

  @Override
  public Status delete(String table, String key) {
    boolean existed = jedis.del(key) == 1;
    jedis.zrem(INDEX, key);
    return existed ? Status.OK : Status.NOT_FOUND;
  }

  @Override
  public Status scan(String table, String startKey, int count, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    Set<String> keys =
        jedis.zrangeByScore(INDEX, startKey.hashCode(), Double.POSITIVE_INFINITY, 0, count);
    for (String key : keys) {
      HashMap<String, ByteIterator> values = new HashMap<>();
      read(table, key, fields, values);
      result.add(values);
    }
    return Status.OK;
  }
}
