# Stock TensorFlow and TensorBow, from this checkout:
#   docker build -t tensorbow . && docker run --rm tensorbow
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.11-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir /wheels/tensorbow-*.whl
CMD ["tensorbow", "doctor"]
