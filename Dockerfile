# The image of the action: `run-evals`, git and the CA certificates on Debian.
#
#   docker build --tag run-evals .
#
# `--build-arg PROFILE=ci` builds the same code without link-time optimization, in a fraction of the time.

FROM rust:1.95-slim-bookworm AS build
ARG PROFILE=release
WORKDIR /src
# The dependencies are a layer of their own, which lasts until a manifest changes.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src && echo '//! Empty.' > src/lib.rs && printf '//! Empty.\nfn main() {}\n' > src/main.rs \
    && cargo build --locked --profile "$PROFILE" --bin run-evals
COPY askama.toml ./
COPY workflows workflows
COPY src src
# Files from the context may be older than the empty ones above, which cargo would then take for built.
RUN touch src/lib.rs src/main.rs \
    && cargo build --locked --profile "$PROFILE" --bin run-evals \
    && cp "target/$PROFILE/run-evals" /run-evals

FROM debian:bookworm-slim
# Of git only what fetches and pushes over HTTPS, and the libraries of these two programs: its package asks for all of
# perl, which nothing here runs. dpkg still knows the version, so that scanners of images see it.
RUN export DEBIAN_FRONTEND=noninteractive && apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libcurl3-gnutls libpcre2-8-0 \
    && cd /tmp && apt-get download git \
    && dpkg --install --force-depends --path-exclude='/*' --path-include=/usr/bin/git \
        --path-include=/usr/lib/git-core --path-include='/usr/lib/git-core/git-remote-http*' git_*.deb \
    && find /usr/lib/git-core -mindepth 1 ! -name 'git-remote-http*' -delete \
    && rm -rf /tmp/* /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
COPY --from=build /run-evals /usr/local/bin/run-evals
# Fails the build, not the first run, where a library is missing.
RUN run-evals --version && git --version && git remote-https 2>&1 | grep --quiet 'usage'
LABEL org.opencontainers.image.title="run-evals" \
      org.opencontainers.image.description="GitHub Actions as the compute backend of LLM evaluations" \
      org.opencontainers.image.source="https://github.com/agentv/run-evals" \
      org.opencontainers.image.documentation="https://github.com/agentv/run-evals#readme" \
      org.opencontainers.image.licenses="MIT"
# Where this is set, a suite's commands are refused: from here they could reach the Docker engine.
ENV RUN_EVALS_IMAGE=1
# GitHub asks for root, for no working directory, and sends signals to this process alone.
ENTRYPOINT ["/usr/local/bin/run-evals"]
