// Runs the function of a file, and ends the process with the status that its runner asks for.

module.exports = (main) =>
  main()
    .then(() => 0)
    .catch((error) => {
      console.error(error);
      return 1;
    })
    .then((status) => process.exit(status));
