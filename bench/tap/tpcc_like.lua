-- Orders and payments in the manner of TPC-C, for sysbench: half of the transactions are new orders, half
-- payments, of the thread's home warehouse. All in transactions, with row locks.
--
--   sysbench bench/tap/tpcc_like.lua --warehouses=4 ... prepare|run|cleanup
--
-- What is written is known by the client, as in TPC-C's own programs: numbers that were read under a lock, its
-- own clock, its own keys. So a transaction that is executed once more right after itself changes nothing, and
-- with a warehouse for each thread no two of them touch the same rows.

sysbench.cmdline.options = {
   warehouses = {"Warehouses", 4},
   items = {"Items", 1000},
}

local DISTRICTS, CUSTOMERS = 10, 100

-- The keys of one run are not those of another.
local run, number = os.time(), 0

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function thread_done()
   connection:disconnect()
end

local function query(...)
   connection:query(string.format(...))
end

local function row(...)
   return connection:query_row(string.format(...))
end

local function insert_all(begin, count, values)
   connection:bulk_insert_init(begin)
   for n = 1, count do
      connection:bulk_insert_next(values(n))
   end
   connection:bulk_insert_done()
end

function prepare()
   thread_init()
   local options = sysbench.opt
   query("CREATE TABLE warehouse (w INT PRIMARY KEY, ytd BIGINT NOT NULL)")
   query("CREATE TABLE district (w INT, d INT, ytd BIGINT NOT NULL, next_order INT NOT NULL, PRIMARY KEY (w, d))")
   query("CREATE TABLE customer (w INT, d INT, c INT, balance BIGINT NOT NULL, note VARCHAR(200), PRIMARY KEY (w, d, c))")
   query("CREATE TABLE stock (w INT, i INT, quantity INT NOT NULL, ytd INT NOT NULL, PRIMARY KEY (w, i))")
   query("CREATE TABLE orders (w INT, d INT, o INT, c INT NOT NULL, lines_ INT NOT NULL, entered DATETIME NOT NULL, PRIMARY KEY (w, d, o))")
   query("CREATE TABLE order_line (w INT, d INT, o INT, n INT, i INT NOT NULL, quantity INT NOT NULL, info CHAR(24), PRIMARY KEY (w, d, o, n))")
   query("CREATE TABLE history (run BIGINT, thread INT, number INT, w INT, d INT, c INT, amount INT, at DATETIME, PRIMARY KEY (run, thread, number))")
   for w = 1, options.warehouses do
      query("INSERT INTO warehouse VALUES (%d, 0)", w)
      for d = 1, DISTRICTS do
         query("INSERT INTO district VALUES (%d, %d, 0, 1)", w, d)
         insert_all("INSERT INTO customer VALUES", CUSTOMERS, function(c)
            return string.format("(%d, %d, %d, 0, '')", w, d, c)
         end)
      end
      insert_all("INSERT INTO stock VALUES", options.items, function(i)
         return string.format("(%d, %d, 100, 0)", w, i)
      end)
   end
   thread_done()
end

function cleanup()
   thread_init()
   for _, name in ipairs({"warehouse", "district", "customer", "stock", "orders", "order_line", "history"}) do
      query("DROP TABLE IF EXISTS %s", name)
   end
   thread_done()
end

local function new_order(w, d, c, now)
   local order = tonumber(row("SELECT next_order FROM district WHERE w = %d AND d = %d FOR UPDATE", w, d))
   query("UPDATE district SET next_order = %d WHERE w = %d AND d = %d", order + 1, w, d)
   local lines = sysbench.rand.uniform(5, 15)
   query("INSERT INTO orders VALUES (%d, %d, %d, %d, %d, '%s')", w, d, order, c, lines, now)
   -- In ascending order, so that two orders do not wait for each other in a circle.
   local step = math.floor(sysbench.opt.items / lines)
   for line = 1, lines do
      local item = (line - 1) * step + sysbench.rand.uniform(1, step)
      local ordered = sysbench.rand.uniform(1, 10)
      local quantity, ytd = row("SELECT quantity, ytd FROM stock WHERE w = %d AND i = %d FOR UPDATE", w, item)
      quantity = tonumber(quantity) - ordered
      if quantity < 10 then
         quantity = quantity + 91
      end
      query("UPDATE stock SET quantity = %d, ytd = %d WHERE w = %d AND i = %d", quantity, tonumber(ytd) + ordered, w, item)
      query("INSERT INTO order_line VALUES (%d, %d, %d, %d, %d, %d, '%s')",
         w, d, order, line, item, ordered, sysbench.rand.string("@@@@@@@@@@@@@@@@@@@@@@@@"))
   end
end

local function payment(w, d, c, now)
   local amount = sysbench.rand.uniform(1, 5000)
   local balance, note = row("SELECT balance, note FROM customer WHERE w = %d AND d = %d AND c = %d FOR UPDATE", w, d, c)
   query("UPDATE customer SET balance = %d, note = '%s' WHERE w = %d AND d = %d AND c = %d",
      tonumber(balance) - amount, string.sub(amount .. " " .. note, 1, 180), w, d, c)
   local ytd = tonumber(row("SELECT ytd FROM district WHERE w = %d AND d = %d FOR UPDATE", w, d))
   query("UPDATE district SET ytd = %d WHERE w = %d AND d = %d", ytd + amount, w, d)
   ytd = tonumber(row("SELECT ytd FROM warehouse WHERE w = %d FOR UPDATE", w))
   query("UPDATE warehouse SET ytd = %d WHERE w = %d", ytd + amount, w)
   number = number + 1
   query("INSERT INTO history VALUES (%d, %d, %d, %d, %d, %d, %d, '%s')", run, sysbench.tid, number, w, d, c, amount, now)
end

function event()
   local w = sysbench.tid % sysbench.opt.warehouses + 1
   local d = sysbench.rand.uniform(1, DISTRICTS)
   local c = sysbench.rand.uniform(1, CUSTOMERS)
   local now = os.date("!%Y-%m-%d %H:%M:%S")
   query("BEGIN")
   if sysbench.rand.uniform(1, 100) <= 50 then
      new_order(w, d, c, now)
   else
      payment(w, d, c, now)
   end
   -- One in a hundred is taken back.
   query(sysbench.rand.uniform(1, 100) == 1 and "ROLLBACK" or "COMMIT")
end
