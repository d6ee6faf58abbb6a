// asynq: tasks with results, delays, retries, priorities, uniqueness, groups, a schedule; what its inspector sees.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
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

func waitUntil(what string, condition func() bool) {
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		check(time.Now().Before(deadline), "did not come true: ", what)
	}
}

func main() {
	log.SetFlags(log.Lshortfile)
	redis := asynq.RedisClientOpt{Addr: "127.0.0.1:" + os.Getenv("INDELIBLE_PORT")}
	client := asynq.NewClient(redis)
	inspector := asynq.NewInspector(redis)
	enqueue := func(task *asynq.Task, options ...asynq.Option) *asynq.TaskInfo {
		info, err := client.Enqueue(task, options...)
		must(err)
		return info
	}

	var tries, scheduled atomic.Int32
	order := make(chan string, 100)
	aggregated := make(chan string, 10)
	handler := asynq.NewServeMux()
	handler.HandleFunc("note", func(_ context.Context, task *asynq.Task) error {
		order <- string(task.Payload())
		return nil
	})
	handler.HandleFunc("upper", func(_ context.Context, task *asynq.Task) error {
		_, err := task.ResultWriter().Write([]byte(strings.ToUpper(string(task.Payload()))))
		return err
	})
	handler.HandleFunc("third", func(context.Context, *asynq.Task) error {
		if tries.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	handler.HandleFunc("fails", func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
	handler.HandleFunc("together", func(_ context.Context, task *asynq.Task) error {
		aggregated <- string(task.Payload())
		return nil
	})
	handler.HandleFunc("every", func(context.Context, *asynq.Task) error {
		scheduled.Add(1)
		return nil
	})

	// What waits: the queue that is more urgent comes first; a task that is there is not put in twice.
	for _, queue := range []string{"low", "high"} {
		for n := range 3 {
			enqueue(asynq.NewTask("note", fmt.Appendf(nil, "%s%d", queue, n)), asynq.Queue(queue))
		}
	}
	unique := asynq.NewTask("upper", []byte("once"))
	enqueue(unique, asynq.Unique(time.Hour))
	_, err := client.Enqueue(unique, asynq.Unique(time.Hour))
	check(errors.Is(err, asynq.ErrDuplicateTask), err)
	pending, err := inspector.ListPendingTasks("low")
	must(err)
	check(len(pending) == 3, pending)

	server := asynq.NewServer(redis, asynq.Config{
		Concurrency:              1,
		Queues:                   map[string]int{"high": 3, "default": 2, "low": 1},
		StrictPriority:           true,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 0 },
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		TaskCheckInterval:        50 * time.Millisecond,
		GroupGracePeriod:         time.Second,
		GroupMaxSize:             3,
		GroupAggregator: asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask("together", fmt.Appendf(nil, "%d", len(tasks)))
		}),
		LogLevel: asynq.FatalLevel,
	})
	must(server.Start(handler))
	for _, expected := range []string{"high0", "high1", "high2", "low0", "low1", "low2"} {
		seen := <-order
		check(seen == expected, seen, expected)
	}

	info := enqueue(asynq.NewTask("upper", []byte("word")), asynq.Retention(time.Hour))
	waitUntil("a result", func() bool {
		info, err = inspector.GetTaskInfo("default", info.ID)
		must(err)
		return info.State == asynq.TaskStateCompleted
	})
	check(string(info.Result) == "WORD", string(info.Result))

	// asynq counts whole seconds: two are at least one.
	begin := time.Now()
	enqueue(asynq.NewTask("note", []byte("late")), asynq.ProcessIn(2*time.Second))
	check(<-order == "late")
	check(time.Since(begin) >= time.Second, time.Since(begin))

	enqueue(asynq.NewTask("third", nil), asynq.MaxRetry(5))
	waitUntil("a task tried three times", func() bool { return tries.Load() == 3 })
	failed := enqueue(asynq.NewTask("fails", nil))
	waitUntil("a task that failed is archived", func() bool {
		info, err := inspector.GetTaskInfo("default", failed.ID)
		must(err)
		return info.State == asynq.TaskStateArchived
	})
	must(inspector.DeleteTask("default", failed.ID))

	for n := range 3 {
		enqueue(asynq.NewTask("part", fmt.Appendf(nil, "%d", n)), asynq.Group("group"))
	}
	check(<-aggregated == "3")

	scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	_, err = scheduler.Register("@every 1s", asynq.NewTask("every", nil))
	must(err)
	must(scheduler.Start())
	waitUntil("the schedule", func() bool { return scheduled.Load() >= 2 })
	scheduler.Shutdown()

	must(inspector.PauseQueue("low"))
	waiting := enqueue(asynq.NewTask("note", []byte("paused")), asynq.Queue("low"))
	queue, err := inspector.GetQueueInfo("low")
	must(err)
	check(queue.Paused && queue.Pending == 1, queue)
	must(inspector.ArchiveTask("low", waiting.ID))
	must(inspector.UnpauseQueue("low"))
	must(inspector.RunTask("low", waiting.ID))
	check(<-order == "paused")

	servers, err := inspector.Servers()
	must(err)
	check(len(servers) == 1, servers)
	server.Shutdown()
	must(inspector.DeleteQueue("low", true))
	must(inspector.Close())
	must(client.Close())
	fmt.Println("asynq: passed")
}
