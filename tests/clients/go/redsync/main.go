// redsync: a lock that is taken, refused, extended, given back and lost, by go-redis; many that want it at once.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func must(err error) {
	if err != nil {
		check(false, err)
	}
}

func check(holds bool, what ...any) {
	if !holds {
		// Said of the line that asked.
		log.Output(2, fmt.Sprint(what...))
		os.Exit(1)
	}
}

func main() {
	log.SetFlags(log.Lshortfile)
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("INDELIBLE_PORT")})
	locks := redsync.New(goredis.NewPool(client))

	lock := locks.NewMutex("lock", redsync.WithExpiry(time.Minute))
	other := locks.NewMutex("lock", redsync.WithExpiry(time.Minute))
	must(lock.Lock())
	check(other.TryLock() != nil, "a lock was taken twice")
	valid, err := lock.Valid()
	check(valid, err)
	extended, err := lock.Extend()
	check(extended, err)
	stolen, _ := other.Unlock()
	check(!stolen, "a lock was given back by one that does not have it")
	unlocked, err := lock.Unlock()
	check(unlocked, err)
	must(other.TryLock())
	// It is lost, and its owner is told.
	must(client.Del(context.Background(), "lock").Err())
	extended, err = other.Extend()
	check(!extended && err != nil, "a lost lock was extended")
	unlocked, err = other.Unlock()
	check(!unlocked && err != nil, "a lost lock was given back")

	var together sync.WaitGroup
	counted := 0
	for range 8 {
		together.Go(func() {
			mutex := locks.NewMutex("counted", redsync.WithTries(10_000), redsync.WithRetryDelay(2*time.Millisecond))
			for range 10 {
				must(mutex.Lock())
				seen := counted
				time.Sleep(time.Millisecond)
				counted = seen + 1
				unlocked, err := mutex.Unlock()
				check(unlocked, err)
			}
		})
	}
	together.Wait()
	check(counted == 80, counted)
	must(client.Close())
	fmt.Println("redsync: passed")
}
