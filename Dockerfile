# duly serve, on SQLite in the volume /data or wherever DULY_DATABASE says; see docs/containers.md.
FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
COPY requirements/ requirements/
RUN python -m venv /opt/duly && \
    /opt/duly/bin/pip install --require-hashes -r requirements/deploy.txt
RUN python -m venv /opt/hatch && \
    /opt/hatch/bin/pip install --require-hashes -r requirements/build.txt
COPY pyproject.toml LICENSE ./
COPY src/ src/
RUN /opt/hatch/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheels . && \
    /opt/duly/bin/pip install --no-deps --no-index wheels/*.whl

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /data --create-home duly
COPY --from=build /opt/duly /opt/duly
ENV PATH=/opt/duly/bin:$PATH \
    DULY_DATABASE=sqlite:////data/duly.db \
    DULY_HOST=0.0.0.0
WORKDIR /data
VOLUME /data
USER 10001
EXPOSE 8787
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["duly", "health"]
ENTRYPOINT ["duly"]
CMD ["serve"]
