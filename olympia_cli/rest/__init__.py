"""The catalog over HTTP: Iceberg's REST API, and a web page. The only package that uses Starlette and uvicorn."""
