from imitable.cli import main

main()
